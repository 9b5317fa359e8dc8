package jobtext

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// CheckName returns an error if s is not a valid name of a task or an output.
func CheckName(s string) error {
	ok := s != "" && len(s) <= MaxNameBytes && fault.IsAlnum(s[0])
	for i := 0; ok && i < len(s); i++ {
		ok = fault.IsAlnum(s[i]) || s[i] == '.' || s[i] == '_' || s[i] == '-'
	}
	if ok {
		return nil
	}
	return fault.New(fault.Quote(s)+" is not a name",
		fmt.Sprintf("letters, digits, '.', '_' and '-', beginning with a letter or digit, at most %d", MaxNameBytes))
}

// CheckEnvName returns an error if s is not a valid name of an environment variable, or is reserved for Tradewind.
func CheckEnvName(s string) error {
	ok := s != "" && len(s) <= MaxNameBytes && (s[0] < '0' || s[0] > '9')
	for i := 0; ok && i < len(s); i++ {
		ok = fault.IsAlnum(s[i]) || s[i] == '_'
	}
	if !ok {
		return fault.New(
			fault.Quote(s)+" is not the name of an environment variable",
			"letters, digits and '_', not beginning with a digit",
		)
	}
	if strings.HasPrefix(s, reservedEnv) {
		return fault.New("variables that begin with "+reservedEnv+" are set by Tradewind", "choose another name")
	}
	return nil
}

// CheckText checks URIs, paths and similar texts: they are one line and not empty.
func CheckText(s string) error {
	if s == "" {
		return fault.New("is empty", "")
	}
	if len(s) > MaxTextBytes {
		return fault.OverLimit(fmt.Sprintf("has %d bytes, more than %d", len(s), MaxTextBytes), "")
	}
	if strings.ContainsAny(s, "\x00\r\n") {
		return fault.New("must be one line", "")
	}
	return fault.CheckString(s)
}

// CheckWord checks names that clouds use: regions, zones, instance types, accelerators.
func CheckWord(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' }) {
		return fault.New(fault.Quote(s)+" has an invalid character", "")
	}
	return nil
}

// CheckCount checks a whole number with bounds.
func CheckCount(n, least, most int) error {
	if n < least || n > most {
		return fault.New(fmt.Sprintf("%d is out of bounds", n), fmt.Sprintf("from %d to %d", least, most))
	}
	return nil
}

// Lazy returns a regular expression that is compiled at its first use, so that no program waits for it at its start.
// It is not package lazyregexp, because clients link this package.
func Lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

var validTopic = Lazy(TopicPattern)

// CheckTopic checks the topic that a job's end is published to.
func CheckTopic(s string) error {
	m := validTopic().FindStringSubmatch(s)
	if m == nil || strings.HasPrefix(m[2], "goog") {
		return fault.New(fault.Quote(s)+" is not a topic", "write pubsub://PROJECT/TOPIC, such as pubsub://acme/jobs")
	}
	return nil
}

// schemes returns the URL schemes of data that the agent can stage.
func schemes() []string { return []string{"s3", "gs", "azblob", "file", "pack"} }

// CheckURI checks the address of data: a URL with a scheme that can be staged, or a local path.
func CheckURI(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	scheme, rest, some := strings.Cut(s, "://")
	if !some {
		return nil
	}
	if !slices.Contains(schemes(), scheme) {
		hint := "s3://, gs://, azblob://, file:// or a local path"
		if near := fault.Nearest(scheme, schemes()); near != "" {
			hint = "did you mean " + near + "://?"
		}
		return fault.New("data cannot be read from "+fault.Quote(s), hint)
	}
	if strings.Trim(rest, "/") == "" {
		return fault.New(fault.Quote(s)+" names no data", "")
	}
	return nil
}

// CheckPlainURI is CheckURI for a format in which variables are not replaced: no store allows $ in a bucket's name.
func CheckPlainURI(s string) error {
	if _, rest, some := strings.Cut(s, "://"); some {
		if bucket, _, _ := strings.Cut(rest, "/"); strings.Contains(bucket, "$") {
			return fault.New(fault.Quote(s)+" has a variable that nothing replaces", "write the name of the bucket")
		}
	}
	return CheckURI(s)
}

// CheckRepositoryURL checks the URL of a git repository. It accepts any URL or path that git accepts, except options
// of git and transports that run a program.
func CheckRepositoryURL(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	helper, _, runs := strings.Cut(s, "::") // git-remote-HELPER, a program
	if strings.HasPrefix(s, "-") || runs && !strings.ContainsAny(helper, "[/") {
		return fault.New(fault.Quote(s)+" is not the URL of a git repository", "https://…, ssh://… or git@host:path")
	}
	return nil
}

// CheckRef checks a branch, tag or commit of a git repository (git-check-ref-format(1)).
func CheckRef(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if strings.HasPrefix(s, "-") || strings.ContainsAny(s, " ~^:?*[\\\x7f") || strings.Contains(s, "..") {
		return fault.New(fault.Quote(s)+" is not a branch, a tag or a commit", "")
	}
	return nil
}

// CheckInside checks a path that must not leave the directory it is relative to.
func CheckInside(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if path.IsAbs(s) || strings.HasPrefix(s, "~") {
		return fault.New(fault.Quote(s)+" is not relative", "a path below the task's directory")
	}
	return checkClimb(s)
}

// CheckMountPath checks a path at which a task sees an input.
func CheckMountPath(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	return checkClimb(s)
}

func checkClimb(s string) error {
	if c := path.Clean(s); c == ".." || strings.HasPrefix(c, "../") {
		return fault.New(fault.Quote(s)+" leaves the task's directory", "remove the ..")
	}
	return nil
}

// CheckDescription checks a text that only people read.
func CheckDescription(s string) error {
	if len(s) > MaxTextBytes {
		return fault.OverLimit(fmt.Sprintf("has %d bytes, more than %d", len(s), MaxTextBytes), "")
	}
	return fault.CheckString(s)
}

// CheckValue checks a value of a member.
func CheckValue(s string) error {
	if len(s) > MaxTextBytes {
		return fault.OverLimit(fmt.Sprintf("has %d bytes, more than %d", len(s), MaxTextBytes), "put it into a file")
	}
	if strings.Contains(s, "\x00") {
		return fault.New("has a null character", "")
	}
	return fault.CheckString(s)
}

// imageRef is a container image with its tag or digest. It cannot begin like an option of a program.
var imageRef = Lazy(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)

// likeContainer is REGISTRY/NAME:TAG; only the tag is required. No cloud names machine images like this.
var likeContainer = Lazy(`^([a-z0-9.-]+(:[0-9]+)?/)?[a-z0-9._/-]+:[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// LikeContainer reports whether a machine image is named like a container image.
func LikeContainer(image string) bool {
	return !strings.HasPrefix(image, ContainerScheme) && likeContainer().MatchString(image)
}

// CheckImage checks the image of an alternative.
func CheckImage(s string) error {
	if ref, container := strings.CutPrefix(s, ContainerScheme); container && !imageRef().MatchString(ref) {
		return fault.New(fault.Quote(s)+" is not a container's image",
			"docker: and its name, such as docker:ubuntu:24.04")
	}
	return CheckText(s)
}

// ContainerScheme is the prefix of a container image, as opposed to a machine image.
const ContainerScheme = "docker:"

// CheckWebhook checks the URL of a webhook.
func CheckWebhook(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
		return fault.New("is not the URL of a webhook", "such as https://example.org/hook")
	}
	return nil
}

var validAddress = Lazy(AddressPattern)

// CheckAddress checks an e-mail address.
func CheckAddress(s string) error {
	if len(s) > maxAddressBytes || !validAddress().MatchString(s) {
		return fault.New(fault.Quote(s)+" is not an e-mail address", "such as me@example.org")
	}
	return nil
}

const maxAddressBytes = 254 // RFC 5321, section 4.5.3.1.3, without the angle brackets

// CheckLabel returns an error if s is not a valid name or value of a label.
func CheckLabel(s string) error {
	ok := s != "" && len(s) <= MaxLabelBytes && fault.IsAlnum(s[0]) && fault.IsAlnum(s[len(s)-1])
	for i := 0; ok && i < len(s); i++ {
		ok = fault.IsAlnum(s[i]) || strings.IndexByte("._/-", s[i]) >= 0
	}
	if ok {
		return nil
	}
	return fault.New(fault.Quote(s)+" is not a label", fmt.Sprintf(
		"letters, digits, '.', '_', '/' and '-', beginning and ending with a letter or digit, at most %d",
		MaxLabelBytes))
}

// CheckLabels returns an error if labels are invalid or too many.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fault.OverLimit(fmt.Sprintf("%d labels, more than %d", len(labels), MaxLabels), "")
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if err := CheckLabel(k); err != nil {
			return err
		}
		if err := CheckLabel(labels[k]); err != nil {
			return fault.WithinKey(k, err)
		}
	}
	return nil
}

// CheckProbePath checks the path of a readiness probe.
func CheckProbePath(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, " \t#") {
		return fault.New(fault.Quote(s)+" is not the path of a request", "such as /health")
	}
	return nil
}

// CheckHeader checks a header of a request.
func CheckHeader(name, value string) error {
	ok := name != "" && len(name) <= MaxNameBytes
	for i := 0; ok && i < len(name); i++ {
		ok = fault.IsAlnum(name[i]) || strings.IndexByte("!#$%&'*+-.^_`|~", name[i]) >= 0
	}
	if !ok {
		return fault.New(fault.Quote(name)+" is not the name of a header", "")
	}
	if value == "" {
		return nil
	}
	return CheckText(value)
}

// CheckScript checks a setup or run script.
func CheckScript(s string) error {
	if len(s) > MaxScriptBytes {
		return fault.OverLimit(
			fmt.Sprintf("the script has %d bytes, more than %d", len(s), MaxScriptBytes),
			"put it into the workdir",
		)
	}
	return fault.CheckString(s)
}
