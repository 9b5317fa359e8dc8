package dynamo_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// noted forwards a request and records its body.
func noted(t *testing.T, into *[]map[string]any, next fault) fault {
	return func(r *http.Request, body []byte) (*http.Response, error) {
		var in map[string]any
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		*into = append(*into, in)
		return next(r, body)
	}
}

// TestReadsAreConsistent checks that requests ask for consistent reads. Emulators always read consistently, so the
// result of a read would not show it.
func TestReadsAreConsistent(t *testing.T) {
	s, road := onFaulty(t, 3)
	var asked []map[string]any
	for _, operation := range []string{"GetItem", "BatchGetItem", "Query"} {
		road.will(operation, 10, noted(t, &asked, forward))
	}
	if _, err := s.Get(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), one, two); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Query(t.Context(), "p", "x", store.Page{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), store.Tx{Writes: []store.Write{{Op: store.Check, Key: one}}}); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 4 {
		t.Errorf("%d requests, want 4", len(asked))
	}
	for _, in := range asked {
		if text, err := json.Marshal(in); err != nil || !strings.Contains(string(text), `"ConsistentRead":true`) {
			t.Errorf("%s is not a consistent read (%v)", text, err)
		}
	}
}

// TestTokensOfTransactions: after a lost answer, a transaction must be repeated with the same token. After a
// cancelled transaction, which had no effect, it must get a new token.
func TestTokensOfTransactions(t *testing.T) {
	for name, c := range map[string]struct {
		first fault
		same  bool
	}{
		"a lost answer": {lost, true},
		"throttled":     {refusal("ThrottlingException"), true},
		"a collision":   {cancelled("TransactionConflict", "None", "None"), false},
	} {
		s, road := onFaulty(t, 3)
		var asked []map[string]any
		road.will("TransactWriteItems", 1, noted(t, &asked, c.first))
		road.will("TransactWriteItems", 1, noted(t, &asked, forward))
		if err := s.Commit(t.Context(), both); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var tokens []string
		for _, in := range asked {
			token, _ := in["ClientRequestToken"].(string)
			if token == "" || slices.Contains(tokens, token) != (c.same && len(tokens) > 0) {
				t.Errorf("%s: the tokens are %q, then %q", name, tokens, token)
			}
			tokens = append(tokens, token)
		}
		if len(tokens) != 2 {
			t.Errorf("%s: %d requests, want 2", name, len(tokens))
		}
	}
}
