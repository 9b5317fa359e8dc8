package stack

import (
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2authorizers"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// agentRoute is the route on which agents report. Agents have no IAM identity that would identify their job; they send
// a token, which the function checks.
const agentRoute = "/v1/agent/{proxy+}"

// pushRoute is the route to which clouds push notices.
const pushRoute = "/v1/push/{proxy+}"

// API rate limits in requests a second. Agents and users have their own, so a flood on the one route does not stop the
// other. Those of agents are enough for a thousand agents that poll every few seconds, and for a burst when they start.
const (
	agentRate  = 500
	agentBurst = 1000
	userRate   = 100
	userBurst  = 200
)

// admittedFor is how long API Gateway remembers that a token was admitted, seconds: its maximum. The function api
// checks each request again.
const admittedFor = 3600

// httpAPI adds the only entry point: users authenticate with IAM, agents with a token that a function of its own checks
// before the API runs. API Gateway itself refuses requests without a token.
func (d *deployment) httpAPI() {
	d.api = awsapigatewayv2.NewHttpApi(d.stack, jsii.String("Http"), &awsapigatewayv2.HttpApiProps{
		ApiName: &d.Name, Description: jsii.String("Tradewind's API"), CreateDefaultStage: jsii.Bool(false),
	})
	integration := func(id string) awsapigatewayv2.HttpRouteIntegration {
		return awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String(id), d.functions[fnAPI],
			&awsapigatewayv2integrations.HttpLambdaIntegrationProps{
				PayloadFormatVersion: awsapigatewayv2.PayloadFormatVersion_VERSION_2_0()})
	}
	agents := awsapigatewayv2.NewHttpRoute(d.stack, jsii.String("AgentRoute"), &awsapigatewayv2.HttpRouteProps{
		HttpApi: d.api, Integration: integration("Agents"),
		RouteKey: awsapigatewayv2.HttpRouteKey_With(jsii.String(agentRoute), awsapigatewayv2.HttpMethod_ANY),
		Authorizer: awsapigatewayv2authorizers.NewHttpLambdaAuthorizer(jsii.String("AgentAuthorizer"),
			d.functions[fnAuthorizer], &awsapigatewayv2authorizers.HttpLambdaAuthorizerProps{
				AuthorizerName: jsii.String("agents"), ResultsCacheTtl: seconds(admittedFor),
				IdentitySource: jsii.Strings("$request.header.Authorization"),
				ResponseTypes: &[]awsapigatewayv2authorizers.HttpLambdaResponseType{
					awsapigatewayv2authorizers.HttpLambdaResponseType_SIMPLE},
			}),
	})
	limits := map[string]interface{}{
		"ANY " + agentRoute: throttle(agentRate, agentBurst), "$default": throttle(userRate, userBurst),
	}
	routes := []constructs.IConstruct{agents}
	if len(d.pushing()) > 0 {
		pushed := awsapigatewayv2.NewHttpRoute(d.stack, jsii.String("PushRoute"), &awsapigatewayv2.HttpRouteProps{
			HttpApi: d.api, Integration: integration("Pushes"),
			RouteKey:   awsapigatewayv2.HttpRouteKey_With(jsii.String(pushRoute), awsapigatewayv2.HttpMethod_POST),
			Authorizer: awsapigatewayv2.NewHttpNoneAuthorizer(),
		})
		skip(pushed, "CKV_AWS_309", "a cloud pushes with its own token, which the cloud's function checks")
		limits["POST "+pushRoute], routes = throttle(userRate, userBurst), append(routes, pushed)
	}
	users := awsapigatewayv2.NewHttpRoute(d.stack, jsii.String("UserRoute"), &awsapigatewayv2.HttpRouteProps{
		HttpApi: d.api, Integration: integration("Users"), RouteKey: awsapigatewayv2.HttpRouteKey_DEFAULT(),
		Authorizer: awsapigatewayv2authorizers.NewHttpIamAuthorizer(),
	})
	stage := d.accessLog()
	cfn(stage).AddPropertyOverride(jsii.String("RouteSettings"), limits)
	for _, route := range append(routes, users) { // the stage names them
		stage.Node().AddDependency(route)
	}
}

func throttle(rate, burst int) map[string]interface{} {
	return map[string]interface{}{"ThrottlingRateLimit": rate, "ThrottlingBurstLimit": burst}
}

// accessLog adds the stage, which logs each request without its query, headers or body.
func (d *deployment) accessLog() awsapigatewayv2.HttpStage {
	logs := awslogs.NewLogGroup(d.stack, jsii.String("AccessLog"), &awslogs.LogGroupProps{
		LogGroupName: jsii.String("/aws/apigateway/" + d.Name), Retention: awslogs.RetentionDays(retention(d.LogDays)),
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	skip(logs, "CKV_AWS_158",
		"it holds paths and status codes; a customer's key costs 1 USD a month and an idle deployment costs nothing",
		"CKV_AWS_338", "how long logs are kept is the deployer's choice (-log-days)")
	format, err := json.Marshal(map[string]string{
		"requestId": "$context.requestId", "at": "$context.requestTime", "ip": "$context.identity.sourceIp",
		"caller": "$context.identity.userArn", "method": "$context.httpMethod", "path": "$context.path",
		"route": "$context.routeKey", "status": "$context.status", "millis": "$context.responseLatency",
		"bytes": "$context.responseLength", "error": "$context.integrationErrorMessage",
	})
	if err != nil {
		panic(err) // strings only
	}
	stage := awsapigatewayv2.NewHttpStage(d.stack, jsii.String("Stage"), &awsapigatewayv2.HttpStageProps{
		HttpApi: d.api, StageName: jsii.String("$default"), AutoDeploy: jsii.Bool(true),
		Throttle: &awsapigatewayv2.ThrottleSettings{RateLimit: num(agentRate), BurstLimit: num(agentBurst)},
	})
	r := cfn(stage)
	r.AddPropertyOverride(jsii.String("AccessLogSettings"), map[string]interface{}{
		"DestinationArn": *logs.LogGroupArn(), "Format": string(format),
	})
	return stage
}

// endpoint is the API's base URL without a trailing slash.
func (d *deployment) endpoint() *string { return d.api.ApiEndpoint() }
