package kubernetes

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Codes of this driver's own failures; all other codes are the API server's reasons.
const (
	codeFull     = "NoRoom"            // the nodes have no room, and no pool can grow
	codeUnbound  = "Unschedulable"     // the scheduler found no node
	codeImage    = "ImageCannotBeHad"  // the image of a bound pod cannot be pulled
	codeQuota    = "QuotaExceeded"     // a ResourceQuota of the namespace
	codeSecurity = "PodSecurity"       // the namespace's Pod Security Standard
	codeGone     = "NamespaceNotFound" // the namespace is missing or terminating
	codeLimit    = "LimitRange"
)

// Times after which the broker may retry a full cluster. The driver watches the free room of nodes, so a retry is
// cheap. After a refusal by the scheduler, a retry has to create pods.
const fullFor, unboundFor = time.Minute, 5 * time.Minute

// maxMessage is the maximum length of the cluster's message in an error, in bytes.
const maxMessage = 1000

// throttledFor is the wait after throttling if the API server does not specify one.
const throttledFor = time.Second

// Typed converts the error of a call to a *cloud.Error. It returns nil for nil, and returns an error that already has
// a kind unchanged.
//
// The API server answers with 403 for three different reasons: a quota of the namespace, its admission rules, and a
// missing right. The message distinguishes them; the patterns are from the plugins ResourceQuota, PodSecurity and
// LimitRanger of kube-apiserver.
func Typed(err error) error { //nolint:gocyclo // a line for each refusal
	var already *cloud.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	text := err.Error() // for a large gang it repeats the same text many times
	e := &cloud.Error{Kind: cloud.Transient, Cloud: Name,
		Message: strings.ToValidUTF8(text[:min(len(text), maxMessage)], ""), Err: err}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return e
	}
	e.Code = string(status.Status().Reason)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	said := status.Status().Message
	switch {
	case apierrors.IsTooManyRequests(err), status.Status().Code == http.StatusTooManyRequests:
		e.Kind = cloud.Throttled
		if e.RetryAfter <= 0 {
			e.RetryAfter = throttledFor
		}
	case apierrors.IsForbidden(err) && strings.Contains(said, "exceeded quota"),
		apierrors.IsForbidden(err) && strings.Contains(said, "failed quota"):
		e.Kind, e.Code, e.Class = cloud.Quota, codeQuota, quotaGroup(said)
	case apierrors.IsForbidden(err) && strings.Contains(said, "violates PodSecurity"):
		e.Kind, e.Code = cloud.Invalid, codeSecurity
	case apierrors.IsForbidden(err) && (strings.Contains(said, "usage per") || strings.Contains(said, "LimitRange")):
		e.Kind, e.Code = cloud.Invalid, codeLimit
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, namespaceTerminating),
		apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces":
		e.Kind, e.Code = cloud.Quota, codeGone // this place cannot be used, others can
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		e.Kind = cloud.Auth
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		e.Kind = cloud.Invalid
	}
	return e
}

// requested matches the exhausted resources in the message of the plugin ResourceQuota.
var requested = lazyregexp.New(`requested: ([^ ]+?)(?:, [a-z]+: |$)`)

// quotaGroup returns the machines that share an exhausted ResourceQuota: those with accelerators if only such devices
// are exhausted, and otherwise all machines of the cluster, because all pods are in one namespace.
func quotaGroup(message string) string {
	m := requested.FindStringSubmatch(message)
	if m == nil {
		return quotas.Region
	}
	for _, amount := range strings.Split(m[1], ",") {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(amount, "requests."), "limits."), "=")
		if !slices.Contains(deviceNames, name) {
			return quotas.Region
		}
	}
	return quotas.Devices
}

// deviceNames are the resources of accelerators.
var deviceNames = []string{"nvidia.com/gpu", "amd.com/gpu", "google.com/tpu"}

const namespaceTerminating metav1.CauseType = "NamespaceTerminating"

func fail(kind cloud.Kind, code, format string, args ...any) error {
	err := cloud.Errorf(Name, kind, code, format, args...)
	switch code {
	case codeFull:
		err.RetryAfterFull = fullFor
	case codeUnbound:
		err.RetryAfterFull = unboundFor
	}
	return err
}
