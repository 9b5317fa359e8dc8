package lambdahost

import "encoding/json"

// CheckMessage asks the function refresh to check the clouds.
const CheckMessage = `{"op":"check"}`

// IsCheck distinguishes that message from a batch of events.
func IsCheck(raw json.RawMessage) bool {
	var m struct {
		Op      string
		Records json.RawMessage
	}
	return json.Unmarshal(raw, &m) == nil && m.Op == "check" && m.Records == nil
}
