package roles_test

import (
	"encoding/json"
	"net/url"
	"testing"
)

type statement struct {
	Action, Resource []string
	Condition        json.RawMessage
}

// statements returns those of a policy that IAM returned.
func statements(t *testing.T, returned string) []statement {
	t.Helper()
	plain, err := url.QueryUnescape(returned)
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Statement []statement }
	if err := json.Unmarshal([]byte(plain), &d); err != nil {
		t.Fatal(err)
	}
	return d.Statement
}
