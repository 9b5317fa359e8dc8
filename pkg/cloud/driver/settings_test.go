package driver_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

func TestSettingsAreReadAsWritten(t *testing.T) {
	want := map[string]string{"project": "acme-batch", "regions": "us-central1+europe-west4", "account": "a@b.com"}
	got, err := driver.ParseSettings(driver.FormatSettings(want))
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := driver.ParseSettings(""); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"project", "=x", "project=", "Project=x", "a=b,a=c", "a=b c", "a=é"} {
		if got, err := driver.ParseSettings(bad); !errors.Is(err, driver.ErrSettings) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add("project=a,regions=b+c")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := driver.ParseSettings(text)
		if err != nil {
			return
		}
		again, err := driver.ParseSettings(driver.FormatSettings(got))
		if err != nil || !maps.Equal(again, got) {
			t.Errorf("%q: %v, then %v, %v", text, got, again, err)
		}
	})
}
