package kubernetes

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// fetch is the script of the init container.
//
//go:embed fetch.sh
var fetch string

// Paths in a pod. Everything except the token is on one volume that is removed with the pod.
const (
	home      = "/tradewind"
	bootDir   = home + "-boot"
	proofDir  = home + "-proof"
	agentFile = home + "/bin/tradewind-agent"
	shmDir    = "/dev/shm"
)

// unprivileged is the user of pods that do not run as root.
const unprivileged int64 = 10001

// typeLabel and zoneLabel select nodes.
const (
	typeLabel = corev1.LabelInstanceTypeStable
	zoneLabel = corev1.LabelTopologyZone
)

// secret holds the tokens of a cluster's ranks. Each pod can read only its own.
func (c *Cloud) secret(spec cloud.LaunchSpec) *corev1.Secret {
	tokens := map[string][]byte{}
	for rank, t := range spec.Bootstrap.Tokens {
		tokens[strconv.Itoa(rank)] = []byte(t)
	}
	fixed := true
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: c.groupName(spec.Cluster), Labels: c.labels(spec.Cluster)},
		Immutable:  &fixed, Type: corev1.SecretTypeOpaque, Data: tokens,
	}
}

func (c *Cloud) labels(cluster string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/managed-by": "tradewind", labelDeployment: hash(c.cfg.Deployment),
		labelCluster: hash(cluster),
	}
}

// pod returns the pod of a rank.
func (c *Cloud) pod(spec cloud.LaunchSpec, s Shape, arch string, rank int) (*corev1.Pod, error) {
	agent, ok := c.cfg.Agents[arch]
	if !ok {
		if agent, ok = c.cfg.Agents[""]; !ok {
			return nil, driver.NoAgent(Name, arch)
		}
	}
	offer, err := json.Marshal(spec.Offer)
	if err != nil {
		return nil, err
	}
	labels := c.labels(spec.Cluster)
	labels[labelRank] = strconv.Itoa(rank)
	for name, value := range spec.Labels { // for people and their dashboards
		if v := labelValue(value); v != "" {
			labels["tradewind.dev/"+plainName(name)] = v
		}
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: c.podName(spec.Cluster, rank), Labels: labels,
			Annotations: map[string]string{
				noteCluster: spec.Cluster, noteOffer: string(offer),
				"cluster-autoscaler.kubernetes.io/safe-to-evict": "true", // its work is saved and resumed elsewhere
			},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(c.cfg.Grace.Seconds())),
			AutomountServiceAccountToken:  new(false), EnableServiceLinks: new(false),
			SecurityContext: c.podSecurity(), Tolerations: c.tolerations(s),
			Affinity: affinity(s, spec.Offer.Zone, spec.Offer.Spot), Volumes: c.volumes(spec, s, rank),
			InitContainers: []corev1.Container{{
				Name: "agent", Image: c.cfg.Image, Command: []string{"/bin/bash", "-c", fetch},
				Env: []corev1.EnvVar{
					{Name: "ENDPOINT", Value: strings.TrimSuffix(spec.Bootstrap.Endpoint, "/")},
					{Name: "PROGRAM", Value: wire.PathProgram + agent}, {Name: "DIGEST", Value: agent},
					{Name: "TOKEN_FILE", Value: bootDir + "/token"}, {Name: "INTO", Value: agentFile},
				},
				VolumeMounts: mounts(), SecurityContext: c.containerSecurity(), Resources: small(s),
			}},
			Containers: []corev1.Container{{
				Name: "task", Image: imageOf(spec, c.cfg.Image), Command: []string{agentFile},
				WorkingDir: home + "/work", Env: c.environment(spec), VolumeMounts: c.taskMounts(),
				SecurityContext: c.containerSecurity(),
				Resources:       corev1.ResourceRequirements{Requests: s.request(), Limits: s.request()},
			}},
		},
	}
	keepRules(p, spec)
	for _, name := range c.cfg.PullSecrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return p, nil
}

// imageOf returns the image in which a task runs.
func imageOf(spec cloud.LaunchSpec, otherwise string) string {
	if spec.Container != "" {
		return spec.Container
	}
	return otherwise
}

// small returns the resources for fetching the agent, which are within those of the pod.
func small(s Shape) corev1.ResourceRequirements {
	s.GPUs = 0
	return corev1.ResourceRequirements{Requests: s.request(), Limits: s.request()}
}

func mounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{
		{Name: "work", MountPath: home}, {Name: "boot", MountPath: bootDir, ReadOnly: true},
		{Name: "shm", MountPath: shmDir},
	}
}

// taskMounts are the mounts of the task's container, whose agent proves the pod's identity.
func (c *Cloud) taskMounts() []corev1.VolumeMount {
	if c.cfg.Audience == "" {
		return mounts()
	}
	return append(mounts(), corev1.VolumeMount{Name: "proof", MountPath: proofDir, ReadOnly: true})
}

// proofFor is the lifetime of a token, in seconds: the minimum that API servers allow. The kubelet renews the token.
const proofFor int64 = 600

// proof makes the kubelet create a token of the pod for the broker's address. API servers do not accept that token.
func (c *Cloud) proof() corev1.Volume {
	return corev1.Volume{Name: "proof", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o440)), Sources: []corev1.VolumeProjection{{
			ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: c.cfg.Audience, ExpirationSeconds: new(proofFor), Path: "token",
			},
		}},
	}}}
}

func (c *Cloud) volumes(spec cloud.LaunchSpec, s Shape, rank int) []corev1.Volume {
	half := s.request()[corev1.ResourceMemory]
	half.Set(half.Value() / 2)
	all := []corev1.Volume{
		{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "boot", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: c.groupName(spec.Cluster), DefaultMode: new(int32(0o440)),
			Items: []corev1.KeyToPath{{Key: strconv.Itoa(rank), Path: "token"}},
		}}},
		{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: &half,
		}}},
	}
	if c.cfg.Audience != "" {
		all = append(all, c.proof())
	}
	return all
}

// environment returns the agent's environment. The pod's ID and address are filled in by the cluster.
func (c *Cloud) environment(spec cloud.LaunchSpec) []corev1.EnvVar {
	of := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
	}
	env := []corev1.EnvVar{
		{Name: "TRADEWIND_ENDPOINT", Value: spec.Bootstrap.Endpoint},
		{Name: "TRADEWIND_TOKEN_FILE", Value: bootDir + "/token"}, {Name: "TRADEWIND_DIR", Value: home + "/work"},
		{Name: "TRADEWIND_MACHINE", ValueFrom: of("metadata.uid")},
		{Name: "TRADEWIND_ADDRESS", ValueFrom: of("status.podIP")},
		{Name: "TRADEWIND_NOTICES", Value: Name}, {Name: "TRADEWIND_GRACE", Value: c.cfg.Grace.String()},
		{Name: "TRADEWIND_SOLE", Value: "1"}, {Name: "HOME", Value: home + "/home"},
	}
	if c.cfg.Audience != "" {
		env = append(env, corev1.EnvVar{Name: "TRADEWIND_PROOF", Value: Name},
			corev1.EnvVar{Name: "TRADEWIND_PROOF_FILE", Value: proofDir + "/token"})
	}
	if spec.Container != "" {
		env = append(env, corev1.EnvVar{Name: "TRADEWIND_INSIDE", Value: spec.Container})
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Environment)) {
		env = append(env, corev1.EnvVar{Name: name, Value: c.cfg.Environment[name]})
	}
	return env
}

func (c *Cloud) podSecurity() *corev1.PodSecurityContext {
	s := &corev1.PodSecurityContext{
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		FSGroup:        new(unprivileged),
	}
	if !c.cfg.AsRoot {
		s.RunAsNonRoot, s.RunAsUser, s.RunAsGroup = new(true), new(unprivileged), new(unprivileged)
	}
	return s
}

func (c *Cloud) containerSecurity() *corev1.SecurityContext {
	s := &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}
	if !c.cfg.AsRoot {
		s.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
	return s
}

// lostFor is the time for which a pod stays on a node that does not answer, in seconds. After that, its work resumes
// elsewhere.
const lostFor int64 = 30

func (c *Cloud) tolerations(s Shape) []corev1.Toleration {
	all := slices.Clone(c.cfg.Tolerations)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		all = append(all, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(lostFor),
		})
	}
	if s.GPUs > 0 {
		all = append(all, corev1.Toleration{Key: string(GPU), Operator: corev1.TolerationOpExists})
	}
	return all
}

// affinity selects the nodes of an offer: their type and zone, and whether they are spot nodes.
func affinity(s Shape, zone string, onSpot bool) *corev1.Affinity {
	var of []corev1.NodeSelectorRequirement
	is := func(key string, op corev1.NodeSelectorOperator, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: []string{value}}
	}
	if s.Node != AnyNode {
		of = append(of, is(typeLabel, corev1.NodeSelectorOpIn, s.Node))
	}
	if zone != "" {
		of = append(of, is(zoneLabel, corev1.NodeSelectorOpIn, zone))
	}
	var terms []corev1.NodeSelectorTerm
	for _, key := range slices.Sorted(maps.Keys(spotLabels)) {
		if onSpot { // any of them
			term := append(slices.Clone(of), is(key, corev1.NodeSelectorOpIn, spotLabels[key]))
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: term})
		} else { // none of them
			of = append(of, is(key, corev1.NodeSelectorOpNotIn, spotLabels[key]))
		}
	}
	if !onSpot {
		terms = []corev1.NodeSelectorTerm{{MatchExpressions: of}}
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// labelValue converts a text to a label's value; empty if nothing usable remains.
func labelValue(text string) string {
	const most = 63
	v := plainName(text)
	return strings.Trim(v[:min(len(v), most)], "-_.")
}

// machine converts a pod of the deployment; ok is false for other pods.
func (c *Cloud) machine(p *corev1.Pod) (m cloud.Machine, ok bool) {
	cluster := p.Annotations[noteCluster]
	rank, err := strconv.Atoi(p.Labels[labelRank])
	if err != nil || cluster == "" || p.Labels[labelDeployment] != hash(c.cfg.Deployment) {
		return m, false
	}
	m = cloud.Machine{ID: string(p.UID), Cluster: cluster, Rank: rank, Launched: p.CreationTimestamp.Time}
	if json.Unmarshal([]byte(p.Annotations[noteOffer]), &m.Offer) != nil {
		return m, false
	}
	m.State, m.Reason = stateOf(p)
	return m, true
}

// stateOf returns a pod's state as a machine, and the reason for which it ended without a request.
func stateOf(p *corev1.Pod) (state cloud.State, reason string) {
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		return cloud.Terminated, ""
	case p.Status.Phase == corev1.PodFailed:
		return cloud.Terminated, endOf(p)
	case p.DeletionTimestamp != nil:
		return cloud.Terminating, ""
	case p.Status.Phase == corev1.PodRunning:
		return cloud.Running, ""
	}
	return cloud.Pending, ""
}

// endOf returns the reason for which a pod has failed, as the cluster reports it.
func endOf(p *corev1.Pod) string {
	if c := condition(p, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return c.Reason
	}
	if p.Status.Reason != "" {
		return p.Status.Reason
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range list {
			if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
				return fmt.Sprintf("container %s ended with exit code %d", s.Name, t.ExitCode)
			}
		}
	}
	return "failed"
}

func condition(p *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == of {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}
