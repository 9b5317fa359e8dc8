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

// statements returns the statements of a policy in IAM's format.
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
