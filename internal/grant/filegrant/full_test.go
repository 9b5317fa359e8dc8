package filegrant

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
)

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
}

// The disk is full. The answer must say so, and must not blame the client.
func TestFullDiskIsReported(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/x", strings.NewReader("four"))
	err := body(r, url.Values{})(full{})
	w := httptest.NewRecorder()
	(&Store{}).answer(w, err)
	if w.Code != http.StatusInsufficientStorage || !strings.Contains(w.Body.String(), "no space is left") {
		t.Errorf("%v: %d %s", err, w.Code, w.Body)
	}
}
