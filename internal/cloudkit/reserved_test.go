package cloudkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

func TestReservedOf(t *testing.T) {
	s := cloudkit.Settings{Reserved: []string{"m5.large@us-east-1:4", "p3.2xlarge@us-east-1/use1-az2:1:0.25"}}
	got, err := s.ReservedOf("aws")
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if said := fmt.Sprintf("%s %d, %s %s %v", got[0].ID, got[0].Count, got[1].ID, got[1].Zone, got[1].USDPerHour); said !=
		"m5.large-us-east-1 4, p3.2xlarge-us-east-1-use1-az2 use1-az2 0.25" {
		t.Error(said)
	}
	text, err := s.Text()
	if err != nil || text != "reserved=m5.large@us-east-1:4+p3.2xlarge@us-east-1/use1-az2:1:0.25" {
		t.Errorf("%s, %v", text, err)
	}
	again, err := cloudkit.FromPairs(map[string]string{"reserved": strings.TrimPrefix(text, "reserved=")})
	if err != nil || fmt.Sprint(again.Reserved) != fmt.Sprint(s.Reserved) {
		t.Errorf("%+v, %v", again, err)
	}
	for bad, why := range map[string]string{
		"m5.large": "is not TYPE@REGION", "m5.large@us-east-1": "is not TYPE@REGION", "m5.large@us-east-1:no": "is not a number",
		"m5.large@us-east-1:0": "is not a number", "m5.large@us-east-1:1:-2": "is not a price", "m5 large@us-east-1:1": "an invalid name",
		"m5.large@:1": "an invalid name", "a@b:1,a@b:1": "twice",
	} {
		s := cloudkit.Settings{Reserved: strings.Split(bad, ",")}
		if err := s.Check(); !errors.Is(err, cloudkit.ErrSettings) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Each refresh must replace the reserved capacity of the old settings by that of the current ones.
func TestReservingAddsReservedOfSettings(t *testing.T) {
	shelf := cloudkit.CatalogStoreOf(t.TempDir())
	none := func(context.Context, driver.Snapshots) (driver.Refreshed, error) { return driver.Refreshed{}, nil }
	for _, named := range [][]string{{"m5.large@us-east-1:4"}, {"m5.large@us-east-1:2"}, nil} {
		refresh := cloudkit.Reserving("aws", cloudkit.Settings{Reserved: named}, none)
		if _, err := refresh(t.Context(), shelf); err != nil {
			t.Fatal(err)
		}
		c, ok := shelf.Catalog(t.Context())
		if !ok {
			t.Fatal("no catalogue")
		}
		var got []string
		for _, r := range c.Reserved() {
			got = append(got, fmt.Sprintf("%s@%s:%d", r.InstanceType, r.Where(), r.Count))
		}
		if fmt.Sprint(got) != fmt.Sprint(named) {
			t.Errorf("the catalogue has %v, want %v", got, named)
		}
	}
}
