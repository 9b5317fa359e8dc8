package azure_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/azure"
)

func TestImageMatchesMachine(t *testing.T) {
	w, r := recorded(t, func(c *azure.Config) { c.Images = map[string]string{"arm64": "me:linux:arm64-9:1.2.3"} })
	for _, c := range []struct{ size, image, given, want string }{
		{"Standard_D2s_v5", "", "", "server"}, {"Standard_D2ps_v5", "", "", "arm64-9"}, {"Standard_A1_v2", "", "", "server-gen1"},
		{"Standard_D2s_v5", "", "me:mine:own:latest", "own"},
	} {
		o := onDemand
		o.InstanceType = c.size
		s := spec("c-"+c.size+c.given, o, 1)
		s.Cluster, s.Image = strings.ReplaceAll(s.Cluster, ":", "-"), c.given
		r.bodies = map[string]string{}
		w.launch(s)
		if got := at(mustBody(t, r), "properties", "storageProfile", "imageReference", "sku"); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	r.bodies = map[string]string{}
	w.launch(spec("gpu", gpu, 1))
	storage := at(mustBody(t, r), "properties", "storageProfile")
	if at(storage, "imageReference", "offer") != "ubuntu-hpc" || at(storage, "osDisk", "diskSizeGB") != 128.0 {
		t.Errorf("%v", storage)
	}
	for _, bad := range []string{"ubuntu", "a:b:c", "a::c:d", "/nowhere/x"} {
		s := spec("bad", onDemand, 1)
		s.Image = bad
		if _, err := w.azure.Launch(t.Context(), s); cloud.KindOf(err) != cloud.Invalid || !strings.Contains(err.Error(), "PUBLISHER:OFFER") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// If Azure refuses a machine type for its generation, the driver remembers that.
func TestFirstGenerationTypeIsLearned(t *testing.T) {
	sizes := append(arm.DefaultSizes(), arm.Size{Name: "Standard_E2_v3", Family: "x", VCPU: 2, OnlyFirstGen: true, USD: 1})
	w := newWorld(t, arm.Config{Sizes: sizes}, nil)
	o := onDemand
	o.InstanceType = "Standard_E2_v3"
	w.launch(spec("a", o, 2))
	if n := w.arm.Calls("PUT machine"); n != 3 {
		t.Errorf("%d calls, want a refused one and two more", n)
	}
	w.launch(spec("b", o, 1))
	if n := w.arm.Calls("PUT machine"); n != 4 {
		t.Errorf("%d calls: the generation was forgotten", n)
	}
}

func TestArch(t *testing.T) {
	for name, want := range map[string]string{
		"Standard_D2ps_v5": "arm64", "Standard_E4pds_v6": "arm64", "Standard_D2s_v5": "amd64", "Standard_NP10s": "amd64",
		"Standard_M128-32ms": "amd64", "Standard_DC1ds_v3": "amd64", "Standard_B2pts_v2": "arm64", "Standard_PB6s": "amd64", "odd": "amd64",
	} {
		if got := azure.Arch(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A task that names an image without the right to read it does not block the cloud for other tasks.
func TestForbiddenImageBlamesWhoeverNamesIt(t *testing.T) {
	for _, image := range []string{"/images/secret", "/galleries/g/images/secret/versions/1.0.0"} {
		image = "/subscriptions/other/resourceGroups/g/providers/Microsoft.Compute" + image
		for _, ofTask := range []bool{true, false} {
			want := cloud.Quota
			w := newWorld(t, arm.Config{}, func(c *azure.Config) {
				if !ofTask {
					c.Images = map[string]string{"amd64": image}
				}
			})
			s := spec("a", onDemand, 2)
			if ofTask {
				s.Image, want = image, cloud.Invalid
			}
			w.arm.Deny("Microsoft.Compute/images/read", "Microsoft.Compute/galleries/images/versions/read")
			if _, err := w.azure.Launch(t.Context(), s); cloud.KindOf(err) != want || !strings.Contains(err.Error(), image) {
				t.Errorf("image named by the task: %v: %v", ofTask, err)
			}
			w.clean()
		}
	}
}
