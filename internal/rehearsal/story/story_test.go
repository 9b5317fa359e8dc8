package story

import "testing"

func TestSecretsAreSeen(t *testing.T) {
	for text, want := range map[string]bool{
		"Authorization: Bearer abcdefghijklmnopqrstuvwxyz":             true,
		"eyJqb2IiOiJhIiwiY2x1c3RlciI6ImEifQ.c2lnbmF0dXJl.b3RoZXJwYXJ0": true,
		`{"level":"INFO","message":"attempt begins"}`:                  false,
	} {
		if secretShapes.MatchString(text) != want {
			t.Errorf("%s", text)
		}
	}
}
