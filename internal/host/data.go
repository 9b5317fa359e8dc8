package host

import (
	"crypto/hmac"
	"crypto/sha256"
	"maps"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// sweepAfter is the time for which an incomplete upload is kept after a crash.
const sweepAfter = 7 * 24 * time.Hour

// openData opens the data folder of jobs, in addition to the stores in the options. Grants are signed with a key
// derived from the state folder's, so they stay valid after a restart. Their URLs are relative to the URL at which an
// agent reaches the broker.
func (h *Host) openData(key []byte) error {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("objects")) // never fails
	var err error
	h.objects, err = filegrant.New(h.state.path("objects"), filegrant.Options{
		BaseURL: api.ObjectsPath, Key: mac.Sum(nil),
	})
	if err != nil {
		return err
	}
	stores := grant.Mux{"file": h.objects}
	maps.Copy(stores, h.opt.Stores)
	maps.Copy(stores, h.bought.data)
	if h.bought.mail != nil {
		stores["file"] = mirrored{h.objects, h.bought.mail}
	}
	h.data = stores
	return h.objects.Sweep(time.Now().Add(-sweepAfter))
}
