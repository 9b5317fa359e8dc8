package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
)

// via is the condition that a service uses a key for the caller, in any region: kms:ViaService (AWS KMS Developer
// Guide, "AWS KMS condition keys").
func via(services ...string) map[string]interface{} {
	names := make([]string, len(services))
	for i, s := range services {
		names[i] = s + ".*.amazonaws.com*"
	}
	return map[string]interface{}{"StringLike": map[string]interface{}{"kms:ViaService": names}}
}

// addKeys allows the use of the customer keys: by EC2 for the volumes of machines, by S3 for data, and by Systems
// Manager and Secrets Manager for secrets. No function may use a key directly. They are separate policies: added to the
// policies of the roles, these would exceed the size limit.
//
// Sources: EBS User Guide, "Requirements for Amazon EBS encryption" (permissions); S3 User Guide, "Using server-side
// encryption with AWS KMS keys" (Decrypt also for uploads in parts); Systems Manager User Guide, "SecureString
// parameters"; Secrets Manager User Guide, "Secret encryption and decryption".
func (d *deployment) addKeys() {
	if len(d.KMSKeys) == 0 {
		return
	}
	grant := via("ec2")
	grant["Bool"] = map[string]interface{}{"kms:GrantIsForAWSResource": "true"}
	d.keyPolicy("VolumeKeys", []awsiam.IRole{d.roles[events.FnProvision]},
		allowIf("Volumes", []string{"kms:DescribeKey", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"},
			via("ec2"), d.KMSKeys...),
		allowIf("VolumeGrants", []string{"kms:CreateGrant"}, grant, d.KMSKeys...))
	data := []awsiam.IRole{d.roles[fnAPI], d.roles[events.FnSubmit]}
	if d.mounts != nil {
		data = append(data, d.mounts)
	}
	data = append(data, d.sparkRoles...)
	d.keyPolicy("DataKeys", data,
		allowIf("Data", []string{"kms:Decrypt", "kms:GenerateDataKey"}, via("s3"), d.KMSKeys...))
	secrets := []awsiam.IRole{d.roles[fnAPI], d.roles[events.FnSubmit]}
	if d.TraceHeaders != "" {
		secrets = append(secrets, d.roles[events.FnHook])
	}
	if _, bought := d.Clouds["lambda"]; bought { // its key is a parameter
		secrets = append(secrets, d.roles[cloudPrefix+"lambda"])
	}
	d.keyPolicy("SecretKeys", secrets,
		allowIf("Secrets", []string{"kms:Decrypt"}, via("ssm", "secretsmanager"), d.KMSKeys...))
}

func (d *deployment) keyPolicy(id string, roles []awsiam.IRole, statements ...awsiam.PolicyStatement) {
	awsiam.NewPolicy(d.stack, jsii.String(id), &awsiam.PolicyProps{Roles: &roles, Statements: &statements})
}
