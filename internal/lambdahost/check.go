package lambdahost

import "encoding/json"

// CheckMessage asks the function refresh what it sees of the clouds.
const CheckMessage = `{"op":"check"}`

// IsCheck tells it from a batch of events.
func IsCheck(raw json.RawMessage) bool {
	var m struct {
		Op      string
		Records json.RawMessage
	}
	return json.Unmarshal(raw, &m) == nil && m.Op == "check" && m.Records == nil
}
