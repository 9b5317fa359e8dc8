package azure

import (
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Classes of machines that need an image of their own.
const (
	classAMD64 = "amd64"
	classARM64 = "arm64"
	classGPU   = "amd64-gpu"
	classGen1  = "amd64-gen1"
)

// images are Ubuntu's, and one with NVIDIA's drivers and CUDA for machines with a GPU ("Ubuntu-HPC images"). None of
// them costs anything, nor asks for terms to be accepted.
var images = map[string]string{
	classAMD64: "Canonical:ubuntu-24_04-lts:server:latest",
	classARM64: "Canonical:ubuntu-24_04-lts:server-arm64:latest",
	classGen1:  "Canonical:ubuntu-24_04-lts:server-gen1:latest",
	classGPU:   "microsoft-dsvm:ubuntu-hpc:2204:latest",
}

// least is how large a root disk has to be for the images above, in GiB.
var least = map[string]int32{classAMD64: 30, classARM64: 30, classGen1: 30, classGPU: 128}

// A type's name tells its processor: letters after the number of vCPUs say what is special, and p is for ARM
// ("Azure virtual machine sizes naming conventions"): Standard_D2ps_v5, Standard_E4pds_v6.
var typeName = regexp.MustCompile(`^(?:Standard|Basic)_([A-Z]+)([0-9]+)(?:-[0-9]+)?([a-z]*)`)

// Arch is the processor architecture of a machine type.
func Arch(instanceType string) string {
	if m := typeName.FindStringSubmatch(instanceType); m != nil && strings.Contains(m[3], "p") {
		return classARM64
	}
	return classAMD64
}

// firstGeneration are families that boot no image of the second generation ("Support for Generation 2 VMs on Azure").
// Others that do not are learned from Azure's refusal.
var firstGeneration = regexp.MustCompile(`^(Basic_A\d+|Standard_(A\d+m?(_v2)?|D\d+|GS?\d|NC\d+r?|NV\d+))$`)

// class is which image a machine wants.
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

// learn notes that a type boots no image of the second generation, where that is why a machine was refused, and says
// whether that is news.
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

// image is what a machine boots, and how large its disk is at least, in GiB; 0 is as large as the image has it.
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

// ofImage types that a launch's image may not be read: no reason to keep others from this cloud.
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
		"%.200q is no image of Azure's: it has to be PUBLISHER:OFFER:SKU:VERSION or an image's ID", name)
}
