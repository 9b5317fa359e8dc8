package aws

import (
	"context"
	"errors"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/catalog/ec2types"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// machineType has the facts about an instance type that a launch needs.
type machineType struct {
	arch   string // amd64, arm64
	nvidia bool
	neuron bool // Inferentia, Trainium
	burst  bool // has CPU credits
	// image is the class of the default image. noImage is the reason why there is none, or empty.
	image   ec2types.Class
	noImage string
}

func (r *region) machineType(ctx context.Context, name string) (machineType, error) {
	return learn(ctx, r, "type "+name, func(ctx context.Context) (machineType, error) {
		out, err := r.ec2.DescribeInstanceTypes(ctx,
			&ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{types.InstanceType(name)}})
		if err != nil {
			return machineType{}, err
		}
		if len(out.InstanceTypes) == 0 {
			return machineType{}, fail(cloud.Capacity, "InvalidInstanceType", "%s is not sold in %s", name, r.name)
		}
		return describeType(out.InstanceTypes[0]), nil
	})
}

// class names the default image that a machine needs: its architecture, followed by -gpu or -neuron if it has such
// accelerators.
func (t machineType) class() string {
	switch {
	case t.nvidia:
		return t.arch + "-gpu"
	case t.neuron:
		return t.arch + "-neuron"
	}
	return t.arch
}

func describeType(t types.InstanceTypeInfo) machineType {
	m := machineType{arch: Arch(t)}
	m.image, m.noImage = ec2types.ImageOf(string(t.InstanceType))
	if t.GpuInfo != nil {
		m.nvidia = slices.ContainsFunc(t.GpuInfo.Gpus, func(g types.GpuDeviceInfo) bool {
			return strings.EqualFold(awssdk.ToString(g.Manufacturer), "NVIDIA")
		})
	}
	m.burst = awssdk.ToBool(t.BurstablePerformanceSupported)
	m.neuron = t.NeuronInfo != nil || t.InferenceAcceleratorInfo != nil
	return m
}

// Arch returns a type's architecture by its name in Go, amd64 or arm64. Types that run both i386 and x86-64 are
// amd64.
func Arch(t types.InstanceTypeInfo) string {
	if t.ProcessorInfo != nil {
		for _, a := range t.ProcessorInfo.SupportedArchitectures {
			if a == types.ArchitectureTypeArm64 || a == types.ArchitectureTypeArm64Mac {
				return "arm64"
			}
		}
	}
	return "amd64"
}

// image is the image that a machine boots from.
type image struct {
	id   string
	root string // the root device's name
	gib  int32  // the minimum size of the root volume
}

// imageParameter returns the public SSM parameter of the default image: Amazon Linux 2023, or AWS's image with the
// accelerator's driver. It selects by the machine family, because an image supports only some of the accelerators.
//
// Source: Amazon Linux 2023 User Guide, "Get the AL2023 AMI by SSM"; AWS Deep Learning AMIs, "Base GPU AMI (AL2023)";
// AWS Neuron documentation, "DLAMI SSM parameters".
func imageParameter(t machineType) string {
	arch := map[string]string{"arm64": "arm64"}[t.arch]
	if arch == "" {
		arch = "x86_64"
	}
	switch t.image {
	case ec2types.NVIDIA:
		return "/aws/service/deeplearning/ami/" + arch + "/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
	case ec2types.Neuron:
		return "/aws/service/neuron/dlami/base/amazon-linux-2023/latest/image_id"
	default:
		return "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-" + arch
	}
}

// image finds a launch's image: an AMI by its ID, an SSM parameter by ssm:NAME, or the default of the machine type.
func (r *region) image(ctx context.Context, spec cloud.LaunchSpec, t machineType) (image, error) {
	id := spec.Image
	switch {
	case id == "":
		var err error
		if id, err = r.defaultImage(ctx, t); err != nil {
			return image{}, err
		}
	case !strings.HasPrefix(id, "ami-") && !strings.HasPrefix(id, "ssm:"):
		return image{}, fail(cloud.Invalid, "InvalidImage", "image %q: want ami-… or ssm:/parameter/name", id)
	}
	if name, ok := strings.CutPrefix(id, "ssm:"); ok {
		var err error
		if id, err = r.parameter(ctx, name); err != nil {
			return image{}, ofImage(spec, err)
		}
	}
	found, err := learn(ctx, r, "image "+t.arch+" "+id, func(ctx context.Context) (image, error) {
		return r.describeImage(ctx, id, t)
	})
	return found, ofImage(spec, err)
}

// ofImage sets the kind of an error that means that a launch's image is missing or may not be used. If the task names
// the image, the task is at fault, and other tasks may still use this cloud. If the deployment names it for a class
// of machines, the task is not at fault.
func ofImage(spec cloud.LaunchSpec, err error) error {
	ofParameter := isCode(err, "AccessDeniedException")
	missing := cloud.KindOf(Typed(err)) == cloud.Invalid &&
		(codeOf(err) == "ParameterNotFound" || strings.HasPrefix(codeOf(err), "InvalidAMIID."))
	switch {
	case missing && spec.ImageFault() == cloud.Quota:
		return fail(cloud.Quota, codeNoImage, "the image for %s is not in %s: %v", spec.Offer.InstanceType,
			spec.Offer.Region, Typed(err))
	case !ofParameter && !isCode(err, "AuthFailure"):
		return err
	case !ofParameter && !strings.Contains(err.Error(), "authorized for images"):
		return err
	case spec.Image != "":
		return fail(cloud.Invalid, "InvalidImage", "image %s may not be used: %v", spec.Image, Typed(err))
	}
	return fail(cloud.Quota, codeNoImage, "the deployment's custom image for %s may not be used: %v",
		spec.Offer.InstanceType, Typed(err))
}

// codeOf returns the code of a failed call.
func codeOf(err error) string {
	var e *cloud.Error
	if errors.As(Typed(err), &e) {
		return e.Code
	}
	return ""
}

// defaultImage returns the deployment's custom image for a class of machines, otherwise AWS's.
func (r *region) defaultImage(ctx context.Context, t machineType) (string, error) {
	if own := r.cloud.cfg.Images[t.class()]; own != "" {
		return own, nil
	}
	if t.noImage != "" {
		return "", failType(cloud.Capacity, codeNoImage, "%s: name an image with image: in the job, or for all "+
			"machines of this class with `tradewind cloud add aws --image %s=ami-…`", t.noImage, t.class())
	}
	id, err := r.parameter(ctx, imageParameter(t))
	if isCode(err, "ParameterNotFound") { // not the task's fault: another region may have it
		return "", fail(cloud.Quota, codeNoImage, "%s has no default image for %s: SSM parameter %s", r.name, t.class(),
			imageParameter(t))
	}
	return id, err
}

func (r *region) parameter(ctx context.Context, name string) (string, error) {
	return learn(ctx, r, "parameter "+name, func(ctx context.Context) (string, error) {
		out, err := r.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
		if err != nil {
			return "", err
		}
		return awssdk.ToString(out.Parameter.Value), nil
	})
}

// defaultRoot is the root device of Amazon Linux.
const defaultRoot = "/dev/xvda"

func (r *region) describeImage(ctx context.Context, id string, t machineType) (image, error) {
	out, err := r.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	if err != nil {
		return image{}, err
	}
	if len(out.Images) == 0 {
		return image{}, fail(cloud.Invalid, "InvalidAMIID.NotFound", "image %s does not exist in %s", id, r.name)
	}
	i := out.Images[0]
	if arm := i.Architecture == types.ArchitectureValuesArm64; i.Architecture != "" && arm != (t.arch == "arm64") {
		return image{}, fail(cloud.Invalid, "InvalidImage", "image %s is for %s, the machine is %s", id,
			i.Architecture, t.arch)
	}
	found := image{id: id, root: awssdk.ToString(i.RootDeviceName)}
	if found.root == "" {
		found.root = defaultRoot
	}
	for _, d := range i.BlockDeviceMappings {
		if awssdk.ToString(d.DeviceName) == found.root && d.Ebs != nil {
			found.gib = awssdk.ToInt32(d.Ebs.VolumeSize)
		}
	}
	return found, nil
}
