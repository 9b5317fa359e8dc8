package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
)

// TestLateNewsOfAContentOfBeforeLeaveTheRemarkAsItIs: the broker may answer when the file has another content already.
func TestLateNewsOfAContentOfBeforeLeaveTheRemarkAsItIs(t *testing.T) {
	f := &folder{dir: t.TempDir(), log: slog.New(slog.DiscardHandler), told: map[string]*told{}}
	remark := func() string {
		said, _ := os.ReadFile(filepath.Join(f.dir, "a.yaml.error.txt"))
		return string(said)
	}
	rejected := func(reason string) {
		if err := f.rejected(events.DAGRejected{Bucket: f.bucketURL(), Key: "a.yaml", Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	accepted := func(digest string) {
		f.accepted(t.Context(), events.ObjectCreated{Bucket: f.bucketURL(), Key: "a.yaml", ETag: digest})
	}
	f.isNew("a.yaml", "1")
	f.isNew("a.yaml", "2")
	rejected("2 is bad")
	if accepted("1"); remark() != "2 is bad\n" {
		t.Errorf("the remark about what is there is %q", remark())
	}
	f.isNew("a.yaml", "3")
	accepted("3")
	if rejected("2 is bad"); remark() != "" {
		t.Errorf("beside a file that is a job lies %q", remark())
	}
}
