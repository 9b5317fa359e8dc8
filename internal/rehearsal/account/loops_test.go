package account

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// TestMessagesKeepTheirChain: each message that a function sends must have the tracing header of the function's
// request.
func TestMessagesKeepTheirChain(t *testing.T) {
	type message struct {
		MessageBody       string
		MessageAttributes map[string]types.MessageAttributeValue
	}
	for _, c := range []struct{ action, header, body string }{
		{"SendMessage", "Root=1;Lineage=a:2", `{"QueueUrl":"q","MessageBody":"x"}`},
		{"SendMessageBatch", "Root=1;Lineage=a:2",
			`{"QueueUrl":"q","Entries":[{"Id":"0","MessageBody":"x","MessageAttributes":{"k":{"DataType":"String","StringValue":"v"}}}]}`},
	} {
		var out struct {
			message
			QueueURL string `json:"QueueUrl"`
			Entries  []message
		}
		if err := json.Unmarshal(traced(c.action, c.header, []byte(c.body)), &out); err != nil {
			t.Fatal(err)
		}
		one := out.message
		if len(out.Entries) > 0 {
			one = out.Entries[0]
			if aws.ToString(one.MessageAttributes["k"].StringValue) != "v" {
				t.Errorf("%s: its own attribute is lost", c.action)
			}
		}
		if got := cause(types.Message{MessageAttributes: one.MessageAttributes}); got != c.header || one.MessageBody != "x" || out.QueueURL != "q" {
			t.Errorf("%s: %+v", c.action, out)
		}
	}
	for _, c := range []struct{ action, header, body string }{{"SendMessage", "", `{"MessageBody":"x"}`}, {"DeleteMessage", "Root=1", `{}`}, {"SendMessage", "Root=1", `?`}} {
		if got := string(traced(c.action, c.header, []byte(c.body))); got != c.body {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
