package settings_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/settings"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// The user's own file names whom the user's brokers notify. A file next to a job may be a stranger's, so its commands
// are not run.
func TestNotifyIsOnlyInOwnFile(t *testing.T) {
	h := newHome(t)
	notify := "notify:\n  command: cat >>ended\n  webhook: https://example.org/hook\n  email: me@example.org\n"
	h.write(t, notify, "")
	want := dag.Notify{Command: "cat >>ended", Webhook: "https://example.org/hook", Email: []string{"me@example.org"}}
	if s := h.load(t); !reflect.DeepEqual(s.Notify.Is, want) {
		t.Errorf("%+v", s.Notify)
	}
	if s, err := settings.Own(h.lookup); err != nil || !reflect.DeepEqual(s.Notify.Is, want) {
		t.Errorf("%+v, %v", s, err)
	}
	h.write(t, "", notify)
	if _, err := settings.Load(h.lookup, h.jobs); err == nil || !strings.Contains(err.Error(), ".tradewind.yaml:2: notify") {
		t.Errorf("%v", err)
	}
}
