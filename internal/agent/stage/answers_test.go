package stage

import (
	"net/http"
	"strings"
	"testing"
)

func TestAnswerMustMatchRange(t *testing.T) {
	for text, want := range map[string][2]int64{
		"bytes 0-9/42": {0, 42}, "bytes 10-41/42": {10, 42}, "": {-1, 0}, "bytes */42": {-1, 0}, "bytes 0-9/*": {-1, 0},
		"bytes -1-9/42": {-1, 0}, "bytes 0-9": {-1, 0}, "bytes 0-9/99999999999999999999": {-1, 0},
	} {
		from, total, err := contentRange(http.Header{"Content-Range": {text}})
		if (err != nil) != (want[0] < 0) || err == nil && [2]int64{from, total} != want {
			t.Errorf("%q: from %d of %d, %v", text, from, total, err)
		}
	}
}

// For any answer of a store, no parsed number may be negative, and an error may quote only the answer's error code.
func FuzzAnswer(f *testing.F) {
	f.Add("bytes 0-9/42", "<Error><Code>SlowDown</Code><Message>m</Message></Error>")
	f.Add("bytes */", "<Code></Code>")
	f.Fuzz(func(t *testing.T, header, body string) {
		from, total, err := contentRange(http.Header{"Content-Range": {header}})
		if err == nil && (from < 0 || total < 0) {
			t.Fatalf("%q: from %d of %d", header, from, total)
		}
		if code := errorCode([]byte(body)); strings.Contains(code, "<") && !strings.Contains(body, "<Code>") {
			t.Fatalf("%q of %q", code, body)
		}
	})
}
