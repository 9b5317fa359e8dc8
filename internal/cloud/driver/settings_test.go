package driver_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

func TestSettingsRoundTrip(t *testing.T) {
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

func TestStoreURLs(t *testing.T) {
	got, err := driver.StoreURLs("gcp", map[string]string{"stores": "us-central1:acme-work+europe-west4:acme-eu"})
	if err != nil || len(got) != 2 || got["gcp:us-central1"] != "gs://acme-work" || got["gcp:europe-west4"] != "gs://acme-eu" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := driver.StoreURLs("azure", map[string]string{}); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	for cloud, stores := range map[string]string{
		"lambda": "us-east-1:work", "gcp": "us-central1", "azure": "eastus:work+eastus:more",
	} {
		if got, err := driver.StoreURLs(cloud, map[string]string{"stores": stores}); !errors.Is(err, driver.ErrSettings) {
			t.Errorf("%s %s: %v, %v", cloud, stores, got, err)
		}
	}
}
