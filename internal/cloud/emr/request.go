package emr

import (
	"maps"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/emr"
	"github.com/aws/aws-sdk-go-v2/service/emr/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

const scheme = "s3"

func (s *Service) check(spec service.Spec) error {
	if err := spec.Check(aws.Name, scheme); err != nil {
		return err
	}
	if spec.InstanceType == "" {
		return cloud.Errorf(aws.Name, cloud.Invalid, service.CodeBadSpec, "the cluster has no machine type")
	}
	if !slices.Contains(s.cfg.Regions, spec.Region) {
		return cloud.OfRegion(cloud.Errorf(aws.Name, cloud.Quota, "RegionNotEnabled",
			"region %q is not among the regions of this deployment: %v", spec.Region, s.cfg.Regions))
	}
	return nil
}

// The limits of EMR's idle time (EMR API reference, "AutoTerminationPolicy").
const minIdle, maxIdle = time.Minute, 7 * 24 * time.Hour

// request builds the call that makes a cluster. HDFS and the shuffle service are on the core nodes, so the first
// executor is on demand, and only the others may be spot machines.
func (s *Service) request(spec service.Spec) *emr.RunJobFlowInput {
	in := &emr.RunJobFlowInput{
		Name: awssdk.String(s.clusterName(spec.Name)), ReleaseLabel: awssdk.String("emr-" + spec.Release),
		Applications: []types.Application{{Name: awssdk.String("Spark")}}, LogUri: &spec.Logs,
		ServiceRole: &s.cfg.ServiceRole, JobFlowRole: &s.cfg.InstanceProfile,
		Instances: &types.JobFlowInstancesConfig{
			InstanceGroups: groups(spec), KeepJobFlowAliveWhenNoSteps: awssdk.Bool(true),
			TerminationProtected: awssdk.Bool(false),
		},
		Tags: s.tags(spec),
	}
	if subnet := s.cfg.Subnets[spec.Region]; subnet != "" {
		in.Instances.Ec2SubnetId = &subnet
	}
	if spec.DiskGiB > 0 {
		in.EbsRootVolumeSize = whole(spec.DiskGiB)
	}
	if spec.Idle > 0 {
		seconds := int64(min(max(spec.Idle, minIdle), maxIdle) / time.Second)
		in.AutoTerminationPolicy = &types.AutoTerminationPolicy{IdleTimeout: &seconds}
	}
	if least, most := spec.Executors.Min, spec.Executors.Max; most > least {
		onDemand := most
		if spec.Spot {
			onDemand = 1
		}
		in.ManagedScalingPolicy = &types.ManagedScalingPolicy{ComputeLimits: &types.ComputeLimits{
			UnitType: types.ComputeLimitsUnitTypeInstances, MinimumCapacityUnits: whole(least),
			MaximumCapacityUnits: whole(most), MaximumOnDemandCapacityUnits: whole(onDemand),
			MaximumCoreCapacityUnits: whole(onDemand),
		}}
	}
	return in
}

func groups(spec service.Spec) []types.InstanceGroupConfig {
	group := func(role types.InstanceRoleType, n int, market types.MarketType) types.InstanceGroupConfig {
		return types.InstanceGroupConfig{
			InstanceRole: role, InstanceCount: whole(n), InstanceType: &spec.InstanceType, Market: market,
		}
	}
	core, task := spec.Executors.Min, 0
	if spec.Spot {
		core, task = 1, spec.Executors.Min-1
	}
	all := []types.InstanceGroupConfig{
		group(types.InstanceRoleTypeMaster, 1, types.MarketTypeOnDemand),
		group(types.InstanceRoleTypeCore, core, types.MarketTypeOnDemand),
	}
	if task > 0 {
		all = append(all, group(types.InstanceRoleTypeTask, task, types.MarketTypeSpot))
	}
	return all
}

func whole(n int) *int32 { return awssdk.Int32(int32(n)) } //nolint:gosec // a number of machines or GiB

func (s *Service) tags(spec service.Spec) []types.Tag {
	values := maps.Clone(s.cfg.Tags)
	if values == nil {
		values = map[string]string{}
	}
	for k, v := range spec.Labels {
		values["tradewind:"+k] = v
	}
	values["tradewind:deployment"], values["tradewind:place"] = s.cfg.Deployment, spec.Name
	var tags []types.Tag
	for _, k := range slices.Sorted(maps.Keys(values)) {
		tags = append(tags, types.Tag{Key: &k, Value: awssdk.String(aws.TagText(values[k]))})
	}
	return tags
}

// stepOf returns the step that runs an application. The driver of Spark runs on the primary node, so that the step's
// log is that of the application. A failed step leaves the cluster to others.
func stepOf(app service.App) types.StepConfig {
	args := append([]string{"spark-submit", "--deploy-mode", "client"}, service.SparkSubmit(app)...)
	args = append(append(args, app.Main), app.Args...)
	return types.StepConfig{
		Name: awssdk.String(app.Name), ActionOnFailure: types.ActionOnFailureContinue,
		HadoopJarStep: &types.HadoopJarStepConfig{Jar: awssdk.String("command-runner.jar"), Args: args},
	}
}

// why returns the reason for which a cluster ended although no user requested that, and nil for others. The kind
// follows from EMR's code (EMR Management Guide, "Error codes with ErrorDetail information"). All validation failures
// of a cluster have the same code, so their message decides.
func why(status *types.ClusterStatus) *cloud.Error {
	reason := status.StateChangeReason
	if reason == nil {
		return nil
	}
	switch reason.Code {
	case "", types.ClusterStateChangeReasonCodeUserRequest, types.ClusterStateChangeReasonCodeAllStepsCompleted:
		return nil
	}
	e := cloud.Errorf(aws.Name, cloud.Capacity, string(reason.Code), "%s", awssdk.ToString(reason.Message))
	for _, d := range status.ErrorDetails {
		e.Code = awssdk.ToString(d.ErrorCode)
		if text := awssdk.ToString(d.ErrorMessage); text != "" {
			e.Message = text
		}
	}
	if e.Message == "" {
		e.Message = "EMR ended the cluster: " + e.Code
	}
	switch text := strings.ToLower(e.Message); {
	case reason.Code != types.ClusterStateChangeReasonCodeValidationError:
	case strings.Contains(text, "quota"), strings.Contains(text, "limit"):
		e.Kind = cloud.Quota
	case strings.Contains(text, "role"), strings.Contains(text, "not authorized"), strings.Contains(text, "subnet"):
		e.Kind = cloud.Auth
	}
	return e
}
