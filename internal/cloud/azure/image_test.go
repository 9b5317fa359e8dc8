package azure_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
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

// A machine with a GPU must get an image with the GPU's driver: V100 needs the proprietary kernel modules, MI300X
// needs ROCm. Source: github.com/Azure/azhpc-images, README and components/install_nvidiagpudriver.sh.
func TestImageHasDriverOfAccelerator(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	for size, want := range map[string]string{
		"Standard_NC4as_T4_v3": "amd64-gpu", "Standard_ND96isr_H200_v5": "amd64-gpu", "Standard_NC24rs_v3": "amd64-v100",
		"Standard_ND40rs_v2": "amd64-v100", "Standard_ND96isr_MI300X_v5": "amd64-rocm", "Standard_D2ps_v5": "arm64",
	} {
		if got := w.azure.Class(apitypes.Offer{Cloud: "azure", InstanceType: size, Accelerator: "x", AccelCount: 1}); got != want {
			t.Errorf("%s boots %s", size, got)
		}
	}
}

// A machine type has no default image, so it must not be bought, and the task moves to another type. It may be bought
// if the task or the deployment names an image.
func TestTypeWithoutDefaultImageIsCapacity(t *testing.T) {
	const a10, own = "Standard_NV36ads_A10_v5", "me:grid:ubuntu:latest"
	sizes := []arm.Size{
		{Name: a10, Family: "x", VCPU: 36, GPUs: 1, USD: 3}, {Name: "Standard_DC2as_v5", Family: "y", VCPU: 2, USD: 1, Confidential: "SNP"},
	}
	for _, c := range []struct {
		size, task, deployment string
		bought                 bool
	}{
		{size: a10}, {size: a10, task: own, bought: true}, {size: a10, deployment: own, bought: true},
		{size: "Standard_DC2as_v5"}, {size: "Standard_DC2as_v5", task: own},
	} {
		w := newWorld(t, arm.Config{Sizes: sizes}, func(cfg *azure.Config) {
			if c.deployment != "" {
				cfg.Images = map[string]string{"amd64-gpu": c.deployment}
			}
		})
		o := onDemand
		o.InstanceType = c.size
		s := spec("a", o, 1)
		s.Image = c.task
		_, err := w.azure.Launch(t.Context(), s)
		if c.bought != (err == nil) || err != nil && (cloud.KindOf(err) != cloud.Capacity || w.arm.Calls("PUT machine") > 0) {
			t.Errorf("%+v: %v after %d calls", c, err, w.arm.Calls("PUT machine"))
		}
	}
}

// An image does not fit the machine type. If the task names the image, the task is at fault. If it is the default
// image, the type is.
func TestImageThatDoesNotFitBlamesWhoeverNamesIt(t *testing.T) {
	sizes := []arm.Size{{Name: "Standard_D2x_v9", Family: "x", VCPU: 2, Arm: true, USD: 1}}
	for image, want := range map[string]cloud.Kind{"": cloud.Capacity, "me:mine:own:latest": cloud.Invalid} {
		w := newWorld(t, arm.Config{Sizes: sizes}, nil)
		o := onDemand
		o.InstanceType = "Standard_D2x_v9"
		s := spec("a", o, 1)
		s.Image = image
		if _, err := w.azure.Launch(t.Context(), s); cloud.KindOf(err) != want {
			t.Errorf("image %q: %v", image, err)
		}
	}
}

// Azure refuses a machine type because of its generation. The driver must remember that.
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
		"Standard_ND128isr_NDR_GB200_v6": "arm64", "Standard_ND128isr_GB300_v6": "arm64", "Standard_M128-32ms": "amd64", "Standard_DC1ds_v3": "amd64", "Standard_B2pts_v2": "arm64", "Standard_PB6s": "amd64", "odd": "amd64",
	} {
		if got := azure.Arch(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A task names an image that the account may not read. The cloud must not be blocked for other tasks.
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
