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

// full is a file on a disk that has no room.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
}

// A full disk is not the client's fault: the answer says that the disk is full.
func TestFullDiskIsReported(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/x", strings.NewReader("four"))
	err := body(r, url.Values{})(full{})
	w := httptest.NewRecorder()
	(&Store{}).answer(w, err)
	if w.Code != http.StatusInsufficientStorage || !strings.Contains(w.Body.String(), "no space is left") {
		t.Errorf("%v: %d %s", err, w.Code, w.Body)
	}
}
