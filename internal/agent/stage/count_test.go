package stage_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
)

// The reported traffic must equal the size of the bucket's objects: single files, files in parts, bundles and the
// manifest.
func TestMovedReportsTraffic(t *testing.T) {
	files := map[string]string{"alone": strings.Repeat("a", 700<<10), "parts": strings.Repeat("p", 11<<20)}
	for _, name := range []string{"a", "b", "c"} {
		for _, more := range strings.Split("0123456789", "") {
			files["small/"+name+more] = name + more
		}
	}
	b := newBucket(t, nil)
	from := newBucket(t, files)
	var sent, received atomic.Int64
	transfer := b.once()
	transfer.Part = 5 << 20
	transfer.Moved = func(uri string, out, in int64) {
		if !strings.HasPrefix(uri, b.url+"/out/") {
			t.Errorf("of %s", uri)
		}
		sent.Add(out)
		received.Add(in)
	}
	ctx := context.Background()
	if _, err := transfer.Upload(ctx, b.at("out"), from.dir, stage.Scan{}, stage.Manifest{}); err != nil {
		t.Fatal(err)
	}
	there := int64(0)
	page, err := b.List(ctx, b.url+"/", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range page.Objects {
		there += o.Size
	}
	if sent.Load() != there || received.Load() != 0 {
		t.Errorf("%d bytes sent and %d received, but the bucket has %d", sent.Load(), received.Load(), there)
	}
	if _, err := transfer.Download(ctx, b.at("out"), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if received.Load() != there || sent.Load() != there {
		t.Errorf("%d bytes sent and %d received of %d", sent.Load(), received.Load(), there)
	}
}
