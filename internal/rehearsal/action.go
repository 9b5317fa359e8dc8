package rehearsal

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strings"
)

// actionOf names what a request asks for, as IAM would.
func actionOf(service string, r *http.Request, body []byte) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		_, action, _ := strings.Cut(target, ".")
		if i := strings.LastIndex(action, "."); i >= 0 {
			action = action[i+1:]
		}
		return action
	}
	switch service {
	case "s3":
		return s3Action(r)
	case "scheduler":
		return map[string]string{http.MethodGet: "GetSchedule", http.MethodPut: "UpdateSchedule", http.MethodPost: "CreateSchedule"}[r.Method]
	case "lambda":
		switch {
		case !strings.HasPrefix(r.URL.Path, mappingPath):
			return r.Method + " " + r.URL.Path
		case r.Method == http.MethodPut:
			return "UpdateEventSourceMapping"
		default:
			return "ListEventSourceMappings"
		}
	}
	if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Action") != "" {
		return form.Get("Action")
	}
	return r.Method + " " + r.URL.Path
}

// s3Action is an operation by its method and whether it names an object. A head is IAM's get.
func s3Action(r *http.Request) string {
	_, key, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case key == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return "ListBucket"
	case key == "":
		return r.Method + " bucket"
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return "GetObject"
	case http.MethodDelete:
		return "DeleteObject"
	default:
		return "PutObject"
	}
}

// unitsOf is what DynamoDB charges for a request, request units: a write is one for each KiB begun, a read one for each 4 KiB, half of it
// when it may be stale; both count double in a transaction (Amazon DynamoDB developer guide, "Read and write operations").
func unitsOf(service, action string, body []byte, answer int) float64 {
	if service != "dynamodb" {
		return 0
	}
	size := func(n, unit int) float64 { return math.Max(1, math.Ceil(float64(n)/float64(unit))) }
	var in struct {
		ConsistentRead bool
		Item           json.RawMessage
		TransactItems  []map[string]struct{ Item json.RawMessage }
		RequestItems   map[string]json.RawMessage
	}
	if json.Unmarshal(body, &in) != nil {
		return 0
	}
	switch action {
	case "PutItem":
		return size(plainSize(in.Item), 1<<10)
	case "UpdateItem", "DeleteItem":
		return 1
	case "TransactWriteItems":
		n := 0.0
		for _, item := range in.TransactItems {
			for _, op := range item {
				n += 2 * size(plainSize(op.Item), 1<<10)
			}
		}
		return n
	case "TransactGetItems":
		return 2 * math.Max(float64(len(in.TransactItems)), size(plainBytes(answer), 4<<10))
	case "GetItem", "Query":
		n := size(plainBytes(answer), 4<<10)
		if !in.ConsistentRead {
			n /= 2
		}
		return n
	case "BatchGetItem":
		keys := 0
		consistent := false
		for _, raw := range in.RequestItems {
			var t struct {
				Keys           []json.RawMessage
				ConsistentRead bool
			}
			if json.Unmarshal(raw, &t) == nil {
				keys, consistent = keys+len(t.Keys), consistent || t.ConsistentRead
			}
		}
		n := math.Max(float64(keys), size(plainBytes(answer), 4<<10))
		if !consistent {
			n /= 2
		}
		return n
	case "BatchWriteItem":
		n := 0.0
		for _, raw := range in.RequestItems {
			var list []struct {
				PutRequest *struct{ Item json.RawMessage }
			}
			if json.Unmarshal(raw, &list) != nil {
				continue
			}
			for _, w := range list {
				if w.PutRequest != nil {
					n += size(plainSize(w.PutRequest.Item), 1<<10)
				} else {
					n++
				}
			}
		}
		return n
	}
	return 0
}

// On the wire bodies are base64, four bytes for three.
func plainSize(item json.RawMessage) int { return plainBytes(len(item)) }

func plainBytes(n int) int { return n * 3 / 4 }
