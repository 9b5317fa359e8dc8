package host_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestRunningBrokerAcceptsOnlyNewToken(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if _, err := host.RotateToken(state); err == nil {
		t.Error("a token was written to a folder in which no broker has run")
	}
	v := &victim{t: t, state: state}
	v.start()
	t.Cleanup(func() { _ = v.cmd.Process.Kill() })
	old := v.running()
	token, err := host.RotateToken(state)
	if err != nil || token == old.Token {
		t.Fatalf("the token is the same as before, or none: %v", err)
	}
	replaced := old
	replaced.Token = token
	for deadline := time.Now().Add(time.Minute); call(replaced, http.MethodGet, "/v1/jobs", nil, &apitypes.JobList{}) != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the new token is not accepted\n%s", v.out.String())
		}
	}
	if call(old, http.MethodGet, "/v1/jobs", nil, &apitypes.JobList{}) == nil {
		t.Error("the old token is still accepted")
	}
	if info, err := os.Stat(filepath.Join(state, "token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v", info.Mode(), err)
	}
}
