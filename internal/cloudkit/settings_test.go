package cloudkit_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
)

func TestSaveAndLoad(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if none, err := cloudkit.Load(state); err != nil || len(none) != 0 {
		t.Errorf("%v %v", none, err)
	}
	want := map[string]cloudkit.Settings{"aws": {Profile: "work", Regions: []string{"us-east-1"}}, "lambda": {KeyFile: "/k"}}
	if err := cloudkit.Save(state, want); err != nil {
		t.Fatal(err)
	}
	if got, err := cloudkit.Load(state); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
}

func TestFromPairs(t *testing.T) {
	s, err := cloudkit.FromPairs(map[string]string{
		"project": "p", "regions": "a+b", "noPublicAddress": "true", "tpus": "true", "proxy": "http://proxy:3128", "tags": "team=ml+cost-center=7",
		"images": "amd64=ami-1+amd64-gpu=ssm:/x",
	})
	want := cloudkit.Settings{
		Project: "p", Regions: []string{"a", "b"}, NoPublicAddress: true, TPUs: true, Proxy: "http://proxy:3128",
		Tags: map[string]string{"team": "ml", "cost-center": "7"}, Images: map[string]string{"amd64": "ami-1", "amd64-gpu": "ssm:/x"},
	}
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("%v: %+v", err, s)
	}
	for _, bad := range []map[string]string{{"tags": "team"}, {"nonsense": "x"}} {
		if _, err := cloudkit.FromPairs(bad); !errors.Is(err, cloudkit.ErrSettings) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestEnvironmentHasProxy(t *testing.T) {
	if env := (cloudkit.Settings{}).Environment(); len(env) != 0 {
		t.Errorf("without a proxy: %v", env)
	}
	s := cloudkit.Settings{Proxy: "http://proxy:3128"}
	env := s.Environment()
	if s.Check() != nil || env["HTTPS_PROXY"] != s.Proxy || env["https_proxy"] != s.Proxy || !strings.Contains(env["NO_PROXY"], "169.254.169.254") {
		t.Errorf("%v %v", s.Check(), env)
	}
	for _, bad := range []string{"proxy:3128", "socks5://proxy", "http://u:p@proxy:3128"} {
		if err := (cloudkit.Settings{Proxy: bad}).Check(); !errors.Is(err, cloudkit.ErrSettings) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"", "{}", `{"clouds":{"aws":{"regions":["us-east-1"]}}}`, `{"clouds":null}`, `{"clouds":{"aws":{"x":1}}}`, "{\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := cloudkit.Read("clouds.json", []byte(text))
		if (err == nil) != (got != nil) || err != nil && (!errors.Is(err, cloudkit.ErrSettings) || !strings.Contains(err.Error(), "clouds.json, line ")) {
			t.Errorf("%v %v", got, err)
		}
	})
}

func TestChoose(t *testing.T) {
	for list, want := range map[string]string{
		"": "", "aws": "aws", "lambda, aws,lambda": "lambda aws", "local": "+local", "aws,local": "aws+local", "moon": "!moon", "aws,": "!",
	} {
		var names []string
		if list != "" {
			names = strings.Split(list, ",")
		}
		chosen, local, err := cloudkit.Choose(kits.All(), names)
		var got []string
		for _, k := range chosen {
			got = append(got, k.Name)
		}
		text := strings.Join(got, " ")
		if local {
			text += "+local"
		}
		if wrong, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), `"`+wrong+`"`) || !strings.Contains(err.Error(), "aws, ") {
				t.Errorf("%q: %v", list, err)
			}
		} else if err != nil || text != want {
			t.Errorf("%q: %q %v", list, text, err)
		}
	}
}

func TestKitsAreComplete(t *testing.T) {
	var names []string
	for _, k := range kits.All() {
		names = append(names, k.Name)
		if k.Title == "" || k.Example == "" || k.Ready == nil || k.Account == nil || k.Flags == nil || k.Open == nil {
			t.Errorf("%+v", k)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(names)) != len(kits.All()) {
		t.Errorf("%v", names)
	}
}

func TestFindAgents(t *testing.T) {
	none, some := t.TempDir(), t.TempDir()
	if _, _, err := cloudkit.FindAgents(none); !errors.Is(err, cloudkit.ErrNoAgents) || !strings.Contains(err.Error(), "make agent") {
		t.Errorf("%v", err)
	}
	file := filepath.Join(some, "arm64", "tradewind-agent")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "rclone"), []byte("rclone"), 0o700); err != nil {
		t.Fatal(err)
	}
	agents, programs, err := cloudkit.FindAgents(none, some)
	if err != nil || len(agents) != 1 || programs.Files[agents["arm64"]] != file {
		t.Errorf("%v %v %v", agents, programs, err)
	}
	if programs.Files[programs.Mounters["arm64"]] != filepath.Join(filepath.Dir(file), "rclone") || programs.Mounters["amd64"] != "" {
		t.Errorf("%v", programs)
	}
}

// The image has the agents in a folder that KO_DATA_PATH names (ko sets it, and scripts/image.sh adds the agents).
// They must be found there.
func TestAgentsOfImageAreFound(t *testing.T) {
	t.Setenv("KO_DATA_PATH", "/var/run/ko")
	if all := cloudkit.AgentFolders(); !slices.Contains(all, "/var/run/ko/agent") {
		t.Errorf("%q", all)
	}
}

func TestStoreURLs(t *testing.T) {
	s, err := cloudkit.FromPairs(map[string]string{"project": "p", "stores": "us-central1:acme+europe-west4:acme-eu"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"gcp:us-central1": "gs://acme", "gcp:europe-west4": "gs://acme-eu"}
	if got := s.StoreURLs("gcp"); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
