package azure

import (
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/tradewind-broker/tradewind/internal/catalog/azureimage"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// images are the default images: Ubuntu, and those with drivers for GPUs ("Ubuntu-HPC images"). They are free, and need
// no acceptance of terms.
var images = map[azureimage.Class]string{
	azureimage.AMD64: "Canonical:ubuntu-24_04-lts:server:latest",
	azureimage.ARM64: "Canonical:ubuntu-24_04-lts:server-arm64:latest",
	azureimage.Gen1:  "Canonical:ubuntu-24_04-lts:server-gen1:latest",
	azureimage.GPU:   "microsoft-dsvm:ubuntu-hpc:2204:latest",
	azureimage.V100:  "microsoft-dsvm:ubuntu-hpc:2204-v100:latest",
	azureimage.ROCm:  "microsoft-dsvm:ubuntu-hpc:2204-rocm:latest",
}

// least is the minimum size of a root disk for these images, in GiB.
var least = map[azureimage.Class]int32{
	azureimage.AMD64: 30, azureimage.ARM64: 30, azureimage.Gen1: 30, azureimage.GPU: 128, azureimage.V100: 128,
	azureimage.ROCm: 128,
}

// Arch returns the processor architecture of a machine type.
func Arch(instanceType string) string {
	if azureimage.IsARM(instanceType) {
		return "arm64"
	}
	return "amd64"
}

// class returns the image class of a machine. If there is no image for it and the task names none, class fails with
// Capacity, because another type may boot.
func (c *Cloud) class(spec cloud.LaunchSpec) (azureimage.Class, error) {
	class, why := azureimage.Of(spec.Offer.InstanceType)
	switch {
	case why == azureimage.WhyNoDriver && (spec.Image != "" || c.cfg.Images[string(azureimage.GPU)] != ""):
		return azureimage.GPU, nil
	case why != "":
		return class, fail(cloud.Capacity, codeNoImage, "%s cannot be used: %s", spec.Offer.InstanceType, why)
	case class == azureimage.AMD64 && c.isFirst(spec.Offer.InstanceType):
		return azureimage.Gen1, nil
	}
	return class, nil
}

func (c *Cloud) isFirst(instanceType string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first[instanceType]
}

// learn records that a type boots no second-generation image, if err shows that. It returns true if that was not
// known before.
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

// image returns the image of a machine, and the minimum size of its disk in GiB; 0 means the image's size.
func (c *Cloud) image(spec cloud.LaunchSpec) (*armcompute.ImageReference, int32, error) {
	kind, err := c.class(spec)
	if err != nil {
		return nil, 0, err
	}
	name, floor := images[kind], least[kind]
	if own := c.cfg.Images[string(kind)]; own != "" {
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

// ofImage sets the kind of an error if the launch's image is missing, may not be read, or was named by the task and
// does not fit the machine type. Tasks with other images can still use this cloud.
func ofImage(spec cloud.LaunchSpec, err error) error {
	e := asError(err)
	if e != nil && slices.Contains([]string{"PlatformImageNotFound", "ImageNotFound", "GalleryImageNotFound"}, e.Code) {
		return fail(spec.ImageFault(), e.Code, "%s", e.Message)
	}
	if e == nil {
		return err
	}
	words := strings.ToLower(e.Message)
	fits := !strings.Contains(words, "hypervisor generation") && !strings.Contains(words, "cpu architecture")
	if !fits && spec.Image != "" {
		return fail(spec.ImageFault(), e.Code, "the image does not fit %s: %s", spec.Offer.InstanceType, e.Message)
	}
	if e.Code != "LinkedAuthorizationFailed" {
		return err
	}
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
