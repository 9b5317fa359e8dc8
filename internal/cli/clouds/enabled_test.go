package clouds

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/host"
)

// TestMailIsPlannedWithoutPublicURL covers how machines get their orders: as messages in a bucket unless a running
// broker has an address for them. Plans count the time that this takes.
func TestMailIsPlannedWithoutPublicURL(t *testing.T) {
	state := t.TempDir()
	for _, c := range []struct {
		name    string
		added   bool
		running *host.Running
		want    bool
	}{
		{name: "no cloud"},
		{name: "added, no broker", added: true, want: true},
		{name: "broker that buys nothing", running: &host.Running{}},
		{name: "broker without address", running: &host.Running{Clouds: []string{"aws"}}, want: true},
		{name: "broker with address", added: true,
			running: &host.Running{Clouds: []string{"aws"}, PublicURL: "https://broker.example.com"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clouds := map[string]cloudkit.Settings{}
			if c.added {
				clouds["aws"] = cloudkit.Settings{Regions: []string{"us-east-1"}}
			}
			if err := cloudkit.Save(state, clouds); err != nil {
				t.Fatal(err)
			}
			find := func(string) (host.Running, bool, error) {
				if c.running == nil {
					return host.Running{}, false, nil
				}
				return *c.running, true, nil
			}
			got, err := Enabling(&command.App{}, nil, find)(t.Context(), state, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Mail != c.want {
				t.Errorf("mail: %t", got.Mail)
			}
		})
	}
}
