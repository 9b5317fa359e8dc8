package azure

import (
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Classes of machines with different images.
const (
	classAMD64 = "amd64"
	classARM64 = "arm64"
	classGPU   = "amd64-gpu"
	classGen1  = "amd64-gen1"
)

// images are the default images: Ubuntu, and one with NVIDIA's drivers and CUDA for machines with a GPU ("Ubuntu-HPC
// images"). They are free, and need no acceptance of terms.
var images = map[string]string{
	classAMD64: "Canonical:ubuntu-24_04-lts:server:latest",
	classARM64: "Canonical:ubuntu-24_04-lts:server-arm64:latest",
	classGen1:  "Canonical:ubuntu-24_04-lts:server-gen1:latest",
	classGPU:   "microsoft-dsvm:ubuntu-hpc:2204:latest",
}

// least is the minimum size of a root disk for these images, in GiB.
var least = map[string]int32{classAMD64: 30, classARM64: 30, classGen1: 30, classGPU: 128}

// typeName matches a machine type's name. Letters after the number of vCPUs are features, and p means ARM ("Azure
// virtual machine sizes naming conventions"): Standard_D2ps_v5, Standard_E4pds_v6.
var typeName = regexp.MustCompile(`^(?:Standard|Basic)_([A-Z]+)([0-9]+)(?:-[0-9]+)?([a-z]*)`)

// Arch returns the processor architecture of a machine type.
func Arch(instanceType string) string {
	if m := typeName.FindStringSubmatch(instanceType); m != nil && strings.Contains(m[3], "p") {
		return classARM64
	}
	return classAMD64
}

// firstGeneration matches families that cannot boot second-generation images ("Support for Generation 2 VMs on
// Azure"). Other such types are learned when Azure refuses them.
var firstGeneration = regexp.MustCompile(`^(Basic_A\d+|Standard_(A\d+m?(_v2)?|D\d+|GS?\d|NC\d+r?|NV\d+))$`)

// class returns the image class of a machine.
func (c *Cloud) class(o apitypes.Offer) string {
	first := firstGeneration.MatchString(o.InstanceType) || c.isFirst(o.InstanceType)
	switch arch := Arch(o.InstanceType); {
	case arch == classARM64:
		return classARM64
	case first:
		return classGen1
	case o.Accelerator != "" && o.AccelCount > 0:
		return classGPU
	}
	return classAMD64
}

func (c *Cloud) isFirst(instanceType string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first[instanceType]
}

// learn records that a type boots no second-generation image, if err says so. It returns true if that was not known
// before.
func (c *Cloud) learn(spec cloud.LaunchSpec, err error) bool {
	if err == nil || spec.Image != "" || !strings.Contains(Typed(err).Error(), "Hypervisor Generation") {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	news := !c.first[spec.Offer.InstanceType]
	c.first[spec.Offer.InstanceType] = true
	return news
}

// image returns the image of a machine, and the minimum size of its disk in GiB; 0 is the image's size.
func (c *Cloud) image(spec cloud.LaunchSpec) (*armcompute.ImageReference, int32, error) {
	kind := c.class(spec.Offer)
	name, floor := images[kind], least[kind]
	if own := c.cfg.Images[kind]; own != "" {
		name, floor = own, 0
	}
	if spec.Image != "" {
		name, floor = spec.Image, 0
	}
	ref := &armcompute.ImageReference{}
	if strings.HasPrefix(name, "/") {
		switch lower := strings.ToLower(name); {
		case strings.HasPrefix(lower, "/communitygalleries/"):
			ref.CommunityGalleryImageID = &name
		case strings.HasPrefix(lower, "/sharedgalleries/"):
			ref.SharedGalleryImageID = &name
		case strings.HasPrefix(lower, "/subscriptions/"):
			ref.ID = &name
		default:
			return nil, 0, badImage(name)
		}
		return ref, floor, nil
	}
	parts := strings.Split(name, ":")
	if len(parts) != 4 || parts[0] == "" || parts[1] == "" || parts[2] == "" || parts[3] == "" {
		return nil, 0, badImage(name)
	}
	ref.Publisher, ref.Offer, ref.SKU, ref.Version = &parts[0], &parts[1], &parts[2], &parts[3]
	return ref, floor, nil
}

// ofImage sets the kind of an error that means that a launch's image is missing or may not be read. Tasks with other
// images can still use this cloud.
func ofImage(spec cloud.LaunchSpec, err error) error {
	e := asError(err)
	if e != nil && slices.Contains([]string{"PlatformImageNotFound", "ImageNotFound", "GalleryImageNotFound"}, e.Code) {
		return fail(spec.ImageFault(), e.Code, "%s", e.Message)
	}
	if e == nil || e.Code != "LinkedAuthorizationFailed" {
		return err
	}
	words := strings.ToLower(e.Message)
	if !strings.Contains(words, "microsoft.compute/images/") &&
		!strings.Contains(words, "microsoft.compute/galleries/") {
		return err
	}
	return fail(spec.ImageFault(), e.Code, "the image may not be read: %s", e.Message)
}

func badImage(name string) error {
	return fail(cloud.Invalid, codeBadSpec,
		"%.200q is not an Azure image: use PUBLISHER:OFFER:SKU:VERSION or an image's ID", name)
}
