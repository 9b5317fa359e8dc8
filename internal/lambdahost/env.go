package lambdahost

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// The environment of every function, as infra/ sets it.
const (
	EnvDeployment  = "TRADEWIND_DEPLOYMENT"      // name, the prefix of everything
	EnvTable       = "TRADEWIND_TABLE"           // DynamoDB table
	EnvBus         = "TRADEWIND_BUS"             // event bus
	EnvQueuePrefix = "TRADEWIND_QUEUE_PREFIX"    // of the functions' queues: tradewind-
	EnvQueueURLs   = "TRADEWIND_QUEUE_URLS"      // what the URLs of all queues begin with
	EnvDAGBucket   = "TRADEWIND_DAG_BUCKET"      // where users drop DAG files
	EnvWorkBucket  = "TRADEWIND_WORK_BUCKET"     // outputs, checkpoints, logs, the agent, large payloads
	EnvAPI         = "TRADEWIND_API"             // base URL at which agents reach the API
	EnvTokenKey    = "TRADEWIND_TOKEN_PARAMETER" //nolint:gosec // the parameter's name, not what is in it
	EnvAgentKey    = "TRADEWIND_AGENT_KEY"       // object keys of the agents: amd64=agent/<sha256>/tradewind,arm64=…
	// the role whose credentials are lent for mounts, by its ARN; optional, nothing is lent
	EnvMountsRole = "TRADEWIND_MOUNTS_ROLE"
	// object keys of rclone: amd64=agent/<sha256>/rclone,arm64=…; optional
	EnvRcloneKey = "TRADEWIND_RCLONE_KEY"
	EnvSchedules = "TRADEWIND_SCHEDULES" // schedules switched on while work is open, by comma
	// functions whose queues are polled only while work is open, by comma; optional
	EnvMappings = "TRADEWIND_MAPPINGS"
	EnvClouds   = "TRADEWIND_CLOUDS"   // clouds to plan and buy on, by comma; optional, aws
	EnvCloud    = "TRADEWIND_CLOUD"    // settings of a cloud's own function, NAME=VALUE by comma
	EnvRegions  = "TRADEWIND_REGIONS"  // of EC2 to buy in, by comma; optional, the deployment's own
	EnvSecrets  = "TRADEWIND_SECRETS"  // paths below which jobs may refer to secrets, by comma; optional, none
	EnvStores   = "TRADEWIND_STORES"   // other regions' buckets for what tasks leave: REGION=BUCKET by comma; optional
	EnvTopic    = "TRADEWIND_TOPIC"    // SNS topic for news; optional
	EnvWebhook  = "TRADEWIND_WEBHOOK"  // URL that news are posted to; optional
	EnvAnnounce = "TRADEWIND_ANNOUNCE" // types of events put on the bus for others, by comma; optional, none
	EnvPolicy   = "TRADEWIND_POLICY"   // key of the sessions' policy in the work bucket; optional, the broker's own
	// EnvProof says whether machines have to prove which one they are: required, optional; optional, required.
	EnvProof = "TRADEWIND_MACHINE_PROOF"
	// EnvCertificates are by which their proofs are checked instead of AWS's own, PEM; optional, for emulators.
	EnvCertificates = "TRADEWIND_MACHINE_CERTIFICATES"
	EnvLogLevel     = "TRADEWIND_LOG_LEVEL" // debug, info, warn, error; optional, info
)

// Env is the environment of a function, read once.
type Env struct {
	Deployment  string
	Table       string
	Bus         string
	QueuePrefix string
	QueueURLs   string
	DAGBucket   string
	WorkBucket  string
	API         string // without a slash at its end
	TokenKey    string
	AgentKey    string
	MountsRole  string
	RcloneKey   []string
	Schedules   []string
	Mappings    []string
	Clouds      []string
	Regions     []string
	Secrets     []string
	Stores      map[string]string // bucket by region
	Topic       string
	Webhook     string
	Announce    []string
	Policy      string
	// Unproven lets machines say hello that do not prove which one they are.
	Unproven     bool
	Certificates string
	LogLevel     string
}

// ErrEnv says that the environment is not what infra/ sets.
var ErrEnv = errors.New("lambdahost: environment")

// LoadEnv reads the environment by getenv. Its error names every variable that is wrong, wrapped in ErrEnv.
func LoadEnv(getenv func(string) string) (Env, error) {
	r := reader{getenv: getenv}
	env := Env{
		Deployment: r.need(EnvDeployment), Table: r.need(EnvTable), Bus: r.need(EnvBus),
		QueuePrefix: r.need(EnvQueuePrefix), QueueURLs: getenv(EnvQueueURLs),
		DAGBucket: r.need(EnvDAGBucket), WorkBucket: r.need(EnvWorkBucket),
		API: r.url(EnvAPI), TokenKey: r.need(EnvTokenKey),
		AgentKey: r.need(EnvAgentKey), MountsRole: getenv(EnvMountsRole), RcloneKey: list(getenv(EnvRcloneKey)),
		Schedules: list(getenv(EnvSchedules)), Mappings: list(getenv(EnvMappings)),
		Clouds: list(getenv(EnvClouds)), Regions: list(getenv(EnvRegions)), Topic: getenv(EnvTopic),
		Secrets: list(getenv(EnvSecrets)), Stores: r.pairs(EnvStores),
		Webhook: getenv(EnvWebhook), Announce: list(getenv(EnvAnnounce)),
		Unproven: r.oneOf(EnvProof, "required", "optional") == "optional", Certificates: getenv(EnvCertificates),
		Policy: getenv(EnvPolicy), LogLevel: r.level(EnvLogLevel),
	}
	if len(env.Clouds) == 0 {
		env.Clouds = []string{"aws"}
	}
	if err := r.err(); err != nil {
		return Env{}, err
	}
	return env, nil
}

// reader collects what is wrong, so that one look at the log names it all.
type reader struct {
	getenv func(string) string
	wrong  []string
}

func (r *reader) err() error {
	if len(r.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrEnv, strings.Join(r.wrong, "; "))
}

func (r *reader) need(name string) string {
	v := r.getenv(name)
	if v == "" {
		r.wrong = append(r.wrong, name+" is not set")
	}
	return v
}

func (r *reader) url(name string) string {
	v := r.need(name)
	if v == "" {
		return ""
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		r.wrong = append(r.wrong,
			fmt.Sprintf("%s is %q, which is no base URL such as https://api.example.com", name, v))
	}
	return strings.TrimRight(v, "/")
}

func (r *reader) pairs(name string) map[string]string {
	out := map[string]string{}
	for _, pair := range list(r.getenv(name)) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" {
			r.wrong = append(r.wrong, fmt.Sprintf("%s has %q, which is no REGION=BUCKET", name, pair))
			continue
		}
		out[key] = value
	}
	return out
}

// oneOf reads one of some words; the first where nothing is set.
func (r *reader) oneOf(name string, words ...string) string {
	v := r.getenv(name)
	if v == "" {
		return words[0]
	}
	if !slices.Contains(words, v) {
		r.wrong = append(r.wrong, fmt.Sprintf("%s is %q, which is none of %s", name, v, strings.Join(words, ", ")))
	}
	return v
}

func (r *reader) level(name string) string {
	v := strings.ToLower(r.getenv(name))
	switch v {
	case "":
		return "info"
	case "debug", "info", "warn", "error":
		return v
	}
	r.wrong = append(r.wrong, fmt.Sprintf("%s is %q, which is none of debug, info, warn, error", name, v))
	return ""
}

func list(v string) []string {
	var out []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// CloudFunction is the function of a cloud that is not AWS.
func CloudFunction(cloud string) string { return "cloud-" + cloud }

// Function is the name of a Lambda function of the deployment.
func (e Env) Function(fn string) string { return e.Deployment + "-" + fn }
