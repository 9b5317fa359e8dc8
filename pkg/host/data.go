package host

import (
	"crypto/hmac"
	"crypto/sha256"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/filegrant"
)

// objectsPath is where what jobs keep is served, to whoever has a grant for it.
const objectsPath = "/v1/objects"

// sweepAfter is how long an upload that a crash left behind is kept.
const sweepAfter = 7 * 24 * time.Hour

// openData opens the folder of what jobs keep beside the stores that the host was given. Grants are signed with a key
// of their own, made of the state folder's, so that they hold over a restart; their URLs are relative to wherever an
// agent reaches the broker.
func (h *Host) openData(key []byte) error {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("objects")) // never fails
	var err error
	h.objects, err = filegrant.New(h.state.path("objects"), filegrant.Options{
		BaseURL: objectsPath, Key: mac.Sum(nil),
	})
	if err != nil {
		return err
	}
	stores := grant.Mux{"file": h.objects}
	maps.Copy(stores, h.opt.Stores)
	h.data = stores
	return h.objects.Sweep(time.Now().Add(-sweepAfter))
}

// withObjects serves what was granted beside the API.
func (h *Host) withObjects(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, objectsPath+"/") {
			h.objects.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
