package account

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// actionOf returns the IAM action of a request.
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

// s3Action returns the action of an S3 request by its method and whether it has a key. IAM treats HEAD as GET.
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

// unitsOf returns the billed units of a request: EventBridge charges for each event, DynamoDB for request units. A
// write costs one unit for each KiB or part of it, a read one for each 4 KiB, or half of that if it may be stale;
// both count double in a transaction (Amazon DynamoDB developer guide, "Read and write operations").
func unitsOf(service, action string, body []byte, answer int) float64 {
	switch {
	case service == "events" && action == "PutEvents":
		var in struct{ Entries []json.RawMessage }
		_ = json.Unmarshal(body, &in) // an invalid body has none
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

// tableRequest has the parts of a DynamoDB request that determine its cost.
type tableRequest struct {
	ConsistentRead bool
	Item           json.RawMessage
	TransactItems  []map[string]struct{ Item json.RawMessage }
	RequestItems   map[string]json.RawMessage
}

// units returns n bytes in units of a size, rounded up, and at least 1.
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
			_ = json.Unmarshal(raw, &list) // the table rejects an invalid body
			for _, w := range list {
				n += units(plainSize(w.PutRequest.Item), 1<<10) // a delete costs one
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
		_ = json.Unmarshal(raw, &t) // the table rejects an invalid body
		keys, consistent = keys+len(t.Keys), consistent || t.ConsistentRead
	}
	n := math.Max(float64(keys), units(plainBytes(answer), 4<<10))
	if !consistent {
		n /= 2
	}
	return n
}

// plainSize is the decoded size: bodies on the wire are base64, four bytes for three.
func plainSize(item json.RawMessage) int { return plainBytes(len(item)) }

func plainBytes(n int) int { return n * 3 / 4 }

// Writes reports whether a DynamoDB action changes the table.
func Writes(action string) bool {
	return slices.Contains([]string{"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"},
		action)
}
