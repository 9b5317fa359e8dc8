package gcp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// factsFor is the time for which cached facts are valid.
const factsFor = time.Hour

// facts caches rarely changing facts. Each is read when it is first needed.
type facts struct {
	locks driver.Locks
	mu    sync.Mutex
	known map[string]fact
}

type fact struct {
	value any
	until time.Time
}

func newFacts() facts { return facts{known: map[string]fact{}} }

func (f *facts) get(name string) (any, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.known[name]
	return v.value, ok && time.Now().Before(v.until)
}

// doubt clears the cache if a launch failed because something no longer exists.
func (f *facts) doubt(err error) {
	var e *cloud.Error
	if errors.As(err, &e) && strings.Contains(strings.ToLower(e.Code), "found") {
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(f.known)
	}
}

// learn returns a fact. If it is not cached, learn reads it. Only one caller reads at a time; the others wait for its
// result.
func learn[T any](ctx context.Context, f *facts, name string, read func(context.Context) (T, error)) (T, error) {
	if v, ok := f.get(name); ok {
		return v.(T), nil
	}
	var none T
	release, err := f.locks.Take(ctx, name)
	if err != nil {
		return none, err
	}
	defer release()
	if v, ok := f.get(name); ok {
		return v.(T), nil
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	v, err := read(ctx)
	if err != nil {
		return none, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[name] = fact{v, time.Now().Add(factsFor)}
	return v, nil
}

// machineType has the facts about a machine type that a launch needs.
type machineType struct {
	arch string // amd64, arm64
	gpu  bool   // the type has GPUs built in; others are attached
	// stays means that the machine cannot be moved to another host, even without GPUs.
	stays bool
}

// mostDisks is the maximum number of local disks with which machines of a family can still be moved to another host.
var mostDisks = map[string]int64{"z3": 6, "z4d": 12, "z4m": 12}

// stays reports whether machines of a type cannot be moved to another host, which the API does not report. These are
// H4D, bare metal, Z3 with more than 18,000 GiB in disks of 3,000, and Z4D or Z4M with more than 42,000 in disks of
// 3,500 (Compute Engine documentation, "Set the host maintenance policy").
func stays(name string, disks *compute.BundledLocalSsds) bool {
	family, _, _ := strings.Cut(name, "-")
	most, limited := mostDisks[family]
	return family == "h4d" || strings.HasSuffix(name, "-metal") ||
		limited && disks != nil && disks.PartitionCount > most
}

func (c *Cloud) machineType(ctx context.Context, zone, name string) (machineType, error) {
	return learn(ctx, &c.facts, "type "+zone+" "+name, func(ctx context.Context) (machineType, error) {
		s, err := c.Compute(ctx)
		if err != nil {
			return machineType{}, err
		}
		t, err := s.MachineTypes.Get(c.cfg.Project, zone, name).Context(ctx).
			Fields("name", "architecture", "accelerators", "bundledLocalSsds", "deprecated").Do()
		switch {
		case notFound(err):
			return machineType{}, fail(cloud.Capacity, codeNotSold, "%s is not sold in %s", name, zone)
		case err != nil:
			return machineType{}, err
		}
		m := machineType{arch: "amd64", gpu: len(t.Accelerators) > 0, stays: stays(name, t.BundledLocalSsds)}
		if t.Architecture == "ARM64" {
			m.arch = "arm64"
		}
		return m, nil
	})
}

// class names the default image that a machine needs: its architecture, followed by -gpu if it has GPUs.
func (t machineType) class(o apitypes.Offer) string {
	if t.gpu || attached(o) {
		return t.arch + "-gpu"
	}
	return t.arch
}

// attached reports whether the offer's accelerators have to be attached; machine types of other families have them
// built in.
func attached(o apitypes.Offer) bool {
	return o.Accelerator != "" && o.AccelCount > 0 && strings.HasPrefix(o.InstanceType, "n1-")
}

// attachedNames are Google's names of the accelerators that it attaches to n1 machines, by their names in the
// catalogue (Compute Engine documentation, "GPU machine types").
var attachedNames = map[string]string{
	"K80": "nvidia-tesla-k80", "P4": "nvidia-tesla-p4", "P100": "nvidia-tesla-p100", "V100": "nvidia-tesla-v100",
	"T4": "nvidia-tesla-t4",
}

// families are families of images by class, of which the first existing one is used: Debian, and Google's Deep
// Learning VMs with NVIDIA's driver (Deep Learning VM documentation, "Choose an image").
var families = map[string][]string{
	"amd64": {"debian-cloud/debian-13", "debian-cloud/debian-12"},
	"arm64": {"debian-cloud/debian-13-arm64", "debian-cloud/debian-12-arm64"},
	"amd64-gpu": {
		"deeplearning-platform-release/common-cu129-ubuntu-2204-nvidia-580",
		"deeplearning-platform-release/common-cu128-ubuntu-2204-nvidia-570",
		"deeplearning-platform-release/common-cu124-ubuntu-2204-py310",
	},
}

// image is the image that a machine boots from.
type image struct {
	link     string
	arch     string
	gib      int64 // the minimum size of the boot disk
	shielded bool  // it boots by UEFI
}

// image finds a launch's image: the one it names, the deployment's image for the machine's class, or Google's.
func (c *Cloud) image(ctx context.Context, spec cloud.LaunchSpec, t machineType) (image, error) {
	class := t.class(spec.Offer)
	name := spec.Image
	if name == "" {
		name = c.cfg.Images[class]
	}
	if name == "" {
		return c.defaultImage(ctx, class)
	}
	i, err := learn(ctx, &c.facts, "image "+name, func(ctx context.Context) (image, error) {
		return c.readImage(ctx, name)
	})
	switch {
	case notFound(err):
		return i, fail(spec.ImageFault(), codeNoImage, "image %s does not exist, or may not be read", name)
	case isForbidden(err):
		return i, fail(spec.ImageFault(), codeNoImage, "image %s may not be read: %s", name, message(err))
	case err == nil && i.arch != "" && i.arch != t.arch:
		return i, fail(cloud.Invalid, codeNoImage, "image %s is for %s, the machine is %s", name, i.arch, t.arch)
	}
	return i, err
}

// ofImage sets the kind of the error if Google refuses to use a launch's image. The caller may still be able to read
// that image. Tasks with other images can still use this cloud.
func ofImage(spec cloud.LaunchSpec, err error) error {
	var e *cloud.Error
	if errors.As(Typed(err), &e) && e.Kind == cloud.Auth && strings.Contains(e.Message, "compute.images.") {
		return fail(spec.ImageFault(), codeNoImage, "%s", e.Message)
	}
	return err
}

// defaultImage returns Google's image of a class. If a family has been retired, it uses the next one in the list.
func (c *Cloud) defaultImage(ctx context.Context, class string) (image, error) {
	return learn(ctx, &c.facts, "class "+class, func(ctx context.Context) (image, error) {
		for _, name := range families[class] {
			project, family, _ := strings.Cut(name, "/")
			i, err := c.readImage(ctx, "projects/"+project+"/global/images/family/"+family)
			if err == nil || !notFound(err) {
				return i, err
			}
		}
		return image{}, fail(cloud.Quota, codeNoImage, "no default image for %s machines: tried %v", class,
			families[class])
	})
}

func (c *Cloud) readImage(ctx context.Context, name string) (image, error) {
	parts := strings.Split(name, "/")
	named := len(parts) == 5 && parts[4] != "family"
	if (!named && len(parts) != 6) || parts[0] != "projects" || parts[2] != "global" || parts[3] != "images" ||
		len(parts) == 6 && parts[4] != "family" {
		return image{}, fail(cloud.Invalid, codeNoImage,
			"image %q: want projects/PROJECT/global/images/NAME or projects/PROJECT/global/images/family/NAME", name)
	}
	s, err := c.Compute(ctx)
	if err != nil {
		return image{}, err
	}
	var i *compute.Image
	if named {
		i, err = s.Images.Get(parts[1], parts[4]).Context(ctx).Do()
	} else {
		i, err = s.Images.GetFromFamily(parts[1], parts[5]).Context(ctx).Do()
	}
	if err != nil {
		return image{}, err
	}
	arch := map[string]string{"X86_64": "amd64", "ARM64": "arm64"}[i.Architecture]
	return image{link: i.SelfLink, arch: arch, gib: i.DiskSizeGb, shielded: slices.ContainsFunc(i.GuestOsFeatures,
		func(f *compute.GuestOsFeature) bool { return f.Type == "UEFI_COMPATIBLE" })}, nil
}
