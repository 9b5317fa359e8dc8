package lambdahost

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/base"
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
	EnvClouds   = "TRADEWIND_CLOUDS" // clouds to plan and buy on, by comma; optional, aws
	// regions of other clouds to buy in, CLOUD:REGION by comma; optional, none
	EnvCloudRegions = "TRADEWIND_CLOUD_REGIONS"
	// machines that are not bought though sold, CLOUD/TYPE or what a type begins with, by comma; optional
	EnvWithout = "TRADEWIND_WITHOUT"
	EnvRegions = "TRADEWIND_REGIONS" // of EC2 to buy in, by comma; optional, the deployment's own
	EnvSecrets = "TRADEWIND_SECRETS" // paths below which jobs may refer to secrets, by comma; optional, none
	// clouds whose functions fetch secrets for jobs, by comma; optional, none
	EnvSecretClouds = "TRADEWIND_SECRET_CLOUDS"
	// clouds that push notices to the API, which their functions read, by comma; optional, none
	EnvPushClouds = "TRADEWIND_PUSH_CLOUDS"
	// buckets of other clouds whose files are jobs too, CLOUD=URL by comma; optional, none
	EnvDAGBuckets = "TRADEWIND_DAG_BUCKETS"
	// buckets for what tasks leave: REGION=BUCKET of other regions, CLOUD:REGION=URL of other clouds; optional
	EnvStores  = "TRADEWIND_STORES"
	EnvTopic   = "TRADEWIND_TOPIC"   // SNS topic for news; optional
	EnvWebhook = "TRADEWIND_WEBHOOK" // URL that news are posted to; optional
	// EnvTraceHeaders is the SSM parameter with the headers of a collector, which OpenTelemetry's own variables name;
	// optional.
	EnvTraceHeaders = "TRADEWIND_TRACE_HEADERS"
	EnvAnnounce     = "TRADEWIND_ANNOUNCE" // types of events put on the bus for others, by comma; optional, none
	// EnvAgentsCall is how often agents that work call; optional, 5m. People get onto their machines the sooner, and
	// dearer.
	EnvAgentsCall = "TRADEWIND_AGENTS_CALL"
	EnvPolicy     = "TRADEWIND_POLICY" // key of the sessions' policy in the work bucket; optional, the broker's own
	// EnvProof says whether machines have to prove which one they are: required, optional; optional, required.
	EnvProof = "TRADEWIND_MACHINE_PROOF"
	// EnvProofs are by what machines of other clouds are proved instead of the clouds' own: gcp=URL of a key set and
	// azure=certificates, PEM, by comma; optional, for emulators.
	EnvProofs = "TRADEWIND_MACHINE_KEYS"
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
	// CloudRegions are those of other clouds, CLOUD:REGION.
	CloudRegions []string
	// Without are machines that are not bought, as planner.Options.Without has them.
	Without []string
	Secrets []string
	// SecretClouds are those whose functions fetch secrets.
	SecretClouds []string
	// PushClouds are those that push notices.
	PushClouds []string
	// DAGBuckets are those of other clouds whose files are jobs, by cloud.
	DAGBuckets map[string]string
	Stores     map[string]string // bucket by region, URL by CLOUD:REGION
	Topic      string
	Webhook    string
	// TraceHeaders is the name of a parameter.
	TraceHeaders string
	Announce     []string
	Policy       string
	// AgentsCall is how often agents that work call.
	AgentsCall time.Duration
	// Unproven lets machines say hello that do not prove which one they are.
	Unproven     bool
	Certificates string
	Proofs       map[string]string
	LogLevel     string
}

// ErrEnv says that the environment is not what infra/ sets.
var ErrEnv = base.ErrEnv

// LoadEnv reads the environment by getenv. Its error names every variable that is wrong, wrapped in ErrEnv.
func LoadEnv(getenv func(string) string) (Env, error) {
	r := base.Reader{Getenv: getenv}
	env := Env{
		Deployment: r.Need(EnvDeployment), Table: r.Need(EnvTable), Bus: r.Need(EnvBus),
		QueuePrefix: r.Need(EnvQueuePrefix), QueueURLs: getenv(EnvQueueURLs),
		DAGBucket: r.Need(EnvDAGBucket), WorkBucket: r.Need(EnvWorkBucket),
		API: r.URL(EnvAPI), TokenKey: r.Need(EnvTokenKey),
		AgentKey: r.Need(EnvAgentKey), MountsRole: getenv(EnvMountsRole), RcloneKey: base.List(getenv(EnvRcloneKey)),
		Schedules: base.List(getenv(EnvSchedules)), Mappings: base.List(getenv(EnvMappings)),
		Clouds: base.List(getenv(EnvClouds)), Regions: base.List(getenv(EnvRegions)),
		CloudRegions: base.List(getenv(EnvCloudRegions)), Without: base.List(getenv(EnvWithout)),
		Proofs: r.Pairs(EnvProofs), Topic: getenv(EnvTopic),
		PushClouds:   base.List(getenv(EnvPushClouds)),
		DAGBuckets:   r.Pairs(EnvDAGBuckets),
		SecretClouds: base.List(getenv(EnvSecretClouds)), Secrets: base.List(getenv(EnvSecrets)),
		Stores:     r.Pairs(EnvStores),
		AgentsCall: r.Span(EnvAgentsCall, agentsCall),
		Webhook:    getenv(EnvWebhook), Announce: base.List(getenv(EnvAnnounce)),
		Unproven: r.OneOf(EnvProof, "required", "optional") == "optional", Certificates: getenv(EnvCertificates),
		TraceHeaders: getenv(EnvTraceHeaders),
		Policy:       getenv(EnvPolicy), LogLevel: r.Level(EnvLogLevel),
	}
	if len(env.Clouds) == 0 {
		env.Clouds = []string{"aws"}
	}
	if err := r.Err(); err != nil {
		return Env{}, err
	}
	return env, nil
}

// Function is the name of a Lambda function of the deployment.
func (e Env) Function(fn string) string { return e.Deployment + "-" + fn }
