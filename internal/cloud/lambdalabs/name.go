package lambdalabs

import (
	"crypto/sha256"
	"encoding/base32"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A machine's name is tw-DEPLOYMENT-TIME-RANK-CLUSTER: the hash of the deployment's name, the milliseconds since 1970
// in base 36, the rank, and the cluster's name, or "_" and its hash if it would be too long.
const (
	maxName         = 64 // the API's maximum, in characters
	mark            = "tw-"
	hashed          = "_" // no cluster's name begins with it
	deploymentBytes = 5
	clusterBytes    = 16
	timeBase        = 36
	// nameless is the prefix of the names of clusters whose machines have lost the tags with the cluster's name.
	nameless = "unnamed:"
)

// hash returns the first bytes of a text's SHA-256, in characters that every name may contain.
func hash(text string, bytes int) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:bytes]))
}

// nameOf returns the name of the machine of a rank.
func nameOf(deployment, cluster string, rank int, at time.Time) string {
	head := mark + hash(deployment, deploymentBytes) + "-" + strconv.FormatInt(at.UnixMilli(), timeBase) + "-" +
		strconv.Itoa(rank) + "-"
	if len(head)+len(cluster) <= maxName {
		return head + cluster
	}
	return head + hashed + hash(cluster, clusterBytes)
}

// named is the content of a machine's name.
type named struct {
	cluster string // the name, or "_" and its hash
	rank    int
	at      time.Time
}

// readName parses the name of a machine; ok is true if it belongs to the deployment.
func readName(deployment, name string) (n named, ok bool) {
	rest, ok := strings.CutPrefix(name, mark+hash(deployment, deploymentBytes)+"-")
	if !ok {
		return named{}, false
	}
	at, rest, _ := strings.Cut(rest, "-")
	rank, cluster, _ := strings.Cut(rest, "-")
	ms, err := strconv.ParseInt(at, timeBase, 64)
	if err != nil || ms < 0 {
		return named{}, false
	}
	n.rank, err = strconv.Atoi(rank)
	if err != nil || n.rank < 0 || cluster == "" {
		return named{}, false
	}
	n.cluster, n.at = cluster, time.UnixMilli(ms).UTC()
	return n, true
}

// belongsTo reports whether a name belongs to a cluster's machine.
func (n named) belongsTo(cluster string) bool {
	digest, isHash := strings.CutPrefix(n.cluster, hashed)
	if !isHash {
		return n.cluster == cluster
	}
	return digest == hash(cluster, clusterBytes) || cluster == nameless+digest
}

// Tags of a machine. The API accepts values of up to 128 characters, so a cluster's name may need two tags.
const (
	tagDeployment = "tradewind:deployment"
	tagCluster    = "tradewind:cluster"
	tagMore       = "tradewind:cluster-more"
	tagAccel      = "tradewind:accelerator"
	maxTag        = 128
)

func (c *Cloud) tags(spec cloud.LaunchSpec) []tag {
	first := spec.Cluster[:min(len(spec.Cluster), maxTag)]
	tags := []tag{{tagDeployment, clip(c.cfg.Deployment)}, {tagCluster, first}}
	if more := spec.Cluster[len(first):]; more != "" {
		tags = append(tags, tag{tagMore, more})
	}
	if o := spec.Offer; o.Accelerator != "" {
		tags = append(tags, tag{tagAccel, clip(o.Accelerator + ":" + strconv.FormatFloat(o.AccelCount, 'f', -1, 64))})
	}
	return tags
}

func clip(s string) string { return s[:min(len(s), maxTag)] }

// owned is a machine of the deployment.
type owned struct {
	cloud.Machine
	named
}

// living reports whether the machine costs money and must be ended.
func (m owned) living() bool { return m.State == cloud.Pending || m.State == cloud.Running }

// convert converts an instance; ok is false if it does not belong to this deployment.
func (c *Cloud) convert(i instance) (m owned, ok bool) {
	n, ok := readName(c.cfg.Deployment, i.Name)
	if !ok {
		return owned{}, false
	}
	if d := i.tag(tagDeployment); d != "" && d != clip(c.cfg.Deployment) {
		return owned{}, false
	}
	cluster := n.cluster
	if digest, isHash := strings.CutPrefix(n.cluster, hashed); isHash {
		cluster = i.tag(tagCluster) + i.tag(tagMore)
		if hash(cluster, clusterBytes) != digest {
			cluster = nameless + digest
		}
	}
	m = owned{named: n, Machine: cloud.Machine{
		ID: i.ID, Cluster: cluster, Rank: n.rank, State: stateOf(i.Status), Launched: n.at,
		Offer: apitypes.Offer{
			Cloud: Name, Region: i.Region.Name, InstanceType: i.Type.Name, USDPerHour: float64(i.Type.Cents) / 100,
		},
	}}
	accelerator, count, _ := strings.Cut(i.tag(tagAccel), ":")
	if n, err := strconv.ParseFloat(count, 64); err == nil && n > 0 && !math.IsInf(n, 0) {
		m.Offer.Accelerator, m.Offer.AccelCount = accelerator, n
	}
	if i.Status == statusPreempted {
		m.Reason = statusPreempted
	}
	return m, true
}

func (i instance) tag(key string) string {
	at := slices.IndexFunc(i.Tags, func(t tag) bool { return t.Key == key })
	if at < 0 {
		return ""
	}
	return i.Tags[at].Value
}

// stateOf converts a status. A machine that does not answer costs as much as other machines. The broker detects it by
// the silence of its agent.
func stateOf(status string) cloud.State {
	switch status {
	case statusBooting:
		return cloud.Pending
	case statusActive, statusUnhealthy:
		return cloud.Running
	case statusTerminated, statusPreempted:
		return cloud.Terminated
	case statusTerminating:
		return cloud.Terminating
	}
	return cloud.Running // an unknown status: the machine is listed, so it may cost money
}
