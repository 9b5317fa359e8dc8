package account

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
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
	case "savingsplans": // its paths are its operations
		return strings.TrimPrefix(r.URL.Path, "/")
	case "scheduler":
		return map[string]string{http.MethodGet: "GetSchedule", http.MethodPut: "UpdateSchedule",
			http.MethodPost: "CreateSchedule"}[r.Method]
	case "lambda":
		switch {
		case invoked(r) != "":
			return "InvokeFunction"
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

// unitsOf is what a request is charged by: EventBridge charges for each event, DynamoDB for request units. A write is
// one for each KiB begun, a read one for each 4 KiB, half of it when it may be stale; both count double in a
// transaction (Amazon DynamoDB developer guide, "Read and write operations").
func unitsOf(service, action string, body []byte, answer int) float64 {
	switch {
	case service == "events" && action == "PutEvents":
		var in struct{ Entries []json.RawMessage }
		_ = json.Unmarshal(body, &in) // what cannot be read has none
		return float64(len(in.Entries))
	case service != "dynamodb":
		return 0
	}
	var in tableRequest
	if json.Unmarshal(body, &in) != nil {
		return 0
	}
	if Writes(action) {
		return in.written(action)
	}
	return in.read(action, answer)
}

// tableRequest is of a request to DynamoDB what it costs by.
type tableRequest struct {
	ConsistentRead bool
	Item           json.RawMessage
	TransactItems  []map[string]struct{ Item json.RawMessage }
	RequestItems   map[string]json.RawMessage
}

// units is how many units of a size begun bytes are, at least one.
func units(n, unit int) float64 { return math.Max(1, math.Ceil(float64(n)/float64(unit))) }

func (in *tableRequest) written(action string) float64 {
	n := 0.0
	switch action {
	case "PutItem":
		n = units(plainSize(in.Item), 1<<10)
	case "TransactWriteItems":
		for _, item := range in.TransactItems {
			for _, op := range item {
				n += 2 * units(plainSize(op.Item), 1<<10)
			}
		}
	case "BatchWriteItem":
		for _, raw := range in.RequestItems {
			var list []struct {
				PutRequest struct{ Item json.RawMessage }
			}
			_ = json.Unmarshal(raw, &list) // what cannot be read is refused by the table
			for _, w := range list {
				n += units(plainSize(w.PutRequest.Item), 1<<10) // removing takes one
			}
		}
	default:
		n = 1
	}
	return n
}

func (in *tableRequest) read(action string, answer int) float64 {
	if action == "TransactGetItems" {
		return 2 * math.Max(float64(len(in.TransactItems)), units(plainBytes(answer), 4<<10))
	}
	keys, consistent := 0, in.ConsistentRead
	for _, raw := range in.RequestItems { // of BatchGetItem
		var t struct {
			Keys           []json.RawMessage
			ConsistentRead bool
		}
		_ = json.Unmarshal(raw, &t) // what cannot be read is refused by the table
		keys, consistent = keys+len(t.Keys), consistent || t.ConsistentRead
	}
	n := math.Max(float64(keys), units(plainBytes(answer), 4<<10))
	if !consistent {
		n /= 2
	}
	return n
}

// On the wire bodies are base64, four bytes for three.
func plainSize(item json.RawMessage) int { return plainBytes(len(item)) }

func plainBytes(n int) int { return n * 3 / 4 }

// Writes says that an action of DynamoDB changes the table.
func Writes(action string) bool {
	return slices.Contains([]string{"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"},
		action)
}
