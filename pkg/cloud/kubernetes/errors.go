package kubernetes

import (
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Codes of this driver's own failures; all others are the API server's reasons.
const (
	codeFull     = "NoRoom"            // the nodes have no room, and no pool can grow
	codeUnbound  = "Unschedulable"     // the scheduler's word
	codeImage    = "ImageCannotBeHad"  // of a pod that is bound
	codeQuota    = "QuotaExceeded"     // a ResourceQuota of the namespace
	codeSecurity = "PodSecurity"       // the namespace's Pod Security Standard
	codeGone     = "NamespaceNotFound" // or it is about to go
	codeLimit    = "LimitRange"
)

// What nodes have is watched: to ask whether a cluster has room again costs a look. Where its scheduler had the last
// word, pods are made for it.
const fullFor, unboundFor = time.Minute, 5 * time.Minute

// maxMessage bounds what is kept of the cluster's words, in bytes.
const maxMessage = 1000

// throttledFor is how long to wait where the API server does not say.
const throttledFor = time.Second

// Typed makes a *cloud.Error of what a call failed with. It returns nil for nil, and what is typed already as it is.
//
// The API server refuses with 403 for three different reasons: a quota of the namespace, what its admission forbids,
// and a right that is lacking. Its message tells them apart; the words are those of the plugins ResourceQuota,
// PodSecurity and LimitRanger of kube-apiserver.
func Typed(err error) error { //nolint:gocyclo // a line for each refusal
	var already *cloud.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	text := err.Error() // of a large gang, as many times the same
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
		e.Kind, e.Code = cloud.Quota, codeQuota
	case apierrors.IsForbidden(err) && strings.Contains(said, "violates PodSecurity"):
		e.Kind, e.Code = cloud.Invalid, codeSecurity
	case apierrors.IsForbidden(err) && (strings.Contains(said, "usage per") || strings.Contains(said, "LimitRange")):
		e.Kind, e.Code = cloud.Invalid, codeLimit
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, namespaceTerminating),
		apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces":
		e.Kind, e.Code = cloud.Quota, codeGone // this place cannot be bought on, others can
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		e.Kind = cloud.Auth
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		e.Kind = cloud.Invalid
	}
	return e
}

const namespaceTerminating metav1.CauseType = "NamespaceTerminating"

func fail(kind cloud.Kind, code, format string, args ...any) error {
	err := cloud.Errorf(Name, kind, code, format, args...)
	switch code {
	case codeFull:
		err.AskAgain = fullFor
	case codeUnbound:
		err.AskAgain = unboundFor
	}
	return err
}
