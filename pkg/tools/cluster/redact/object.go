package redact

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/words/lazyregexp"
)

// Rule says what was removed.
type Rule string

// The rules.
const (
	Values      Rule = "values of variables"
	Arguments   Rule = "arguments of containers"
	Annotations Rule = "values of annotations"
	CloudInit   Rule = "cloud-init data"
	Headers     Rule = "values of HTTP headers"
	Data        Rule = "data of ConfigMaps and Secrets"
	Opaque      Rule = "settings of drivers, patches and policies, of any form"
	Named       Rule = "values whose name says that they are secret"
	Messages    Rule = "values in messages and logs"
	Domains     Rule = "values in a domain's XML"
)

// Removed counts what was removed, by rule.
type Removed map[Rule]int

// Add adds what another one has counted.
func (r Removed) Add(other Removed) {
	for rule, count := range other {
		r[rule] += count
	}
}

// Rules returns the rules by which something was removed, in order.
func (r Removed) Rules() []Rule { return slices.Sorted(maps.Keys(r)) }

// message removes secrets from a text, and counts them under a rule.
func (r Removed) message(rule Rule, text string, remove func(string) string) string {
	safe := remove(text)
	if count := strings.Count(safe, Mark) - strings.Count(text, Mark); count > 0 {
		r[rule] += count
	}
	return safe
}

// fields are the fields of objects whose values are removed, whatever they are.
var fields = map[string]Rule{
	// KubeVirt api/core/v1, CloudInitNoCloudSource and CloudInitConfigDriveSource
	"userData": CloudInit, "userDataBase64": CloudInit,
	"networkData": CloudInit, "networkDataBase64": CloudInit,
	"data": Data, "stringData": Data, "binaryData": Data,
	"httpHeaders": Headers, "extraHeaders": Headers,
	"parameters": Opaque, // k8s.io/api/resource/v1, OpaqueDeviceConfiguration
	// k8s.io/api/core/v1, CSIVolumeSource, FlexVolumeSource
	"volumeAttributes": Opaque, "options": Opaque,
	"flags":          Opaque, // KubeVirt api/core/v1, CustomizeComponents
	"privateOptions": Opaque, // KubeVirt api/core/v1, DHCPOptions
	"patch":          Opaque, // KubeVirt api/core/v1, CustomizeComponentsPatch
	"kernelArgs":     Opaque, // KubeVirt api/core/v1, KernelBoot
	// k8snetworkplumbingwg network-attachment-definition-client, NetworkSelectionElement
	"cni-args": Opaque,
	"command":  Arguments, "args": Arguments,
	"annotations": Annotations,
}

// celFields are the fields of admission policies that have CEL, in which a pod may be spelled out.
var celFields = []string{
	"mutations", "validations", "variables", "matchConditions", "auditAnnotations",
}

// annotations are the annotations that keep their values, beside those of policy.AnnotationPrefix.
// KubeVirt's hookSidecars says whether a VM requests a hook; the scheduler's says which claim a
// pod's is (k8s.io/api/resource/v1, PodResourceClaimAnnotation).
var annotations = []string{
	"hooks.kubevirt.io/hookSidecars", "resource.kubernetes.io/pod-claim-name",
	"kubevirt.io/allow-pod-bridge-network-live-migration",
}

// hookFields are the fields of hookSidecars' value (KubeVirt pkg/hooks/hooks.go, HookSidecar).
var hookFields = strings.Fields(`args command configMap downwardAPI env hookPath image imagePullPolicy
	key name pvc sharedComputePath value volumePath`)

// policyValue matches the values of a policy's key, and words that a user may have meant.
var policyValue = lazyregexp.New(`^(?:[\s,]*(?:[A-Za-z-]+[0-9]?|[0-9]+)\b)*$`)

// references are the fields, within one whose name says that it is a secret, that say which Secret
// or which part of one it is (k8s.io/api/core/v1, SecretVolumeSource, SecretKeySelector).
var references = strings.Fields(`apiGroup audience defaultMode kind mode name namespace optional path
	secretExtraHeaders secretName uuid`)

// selectors are the fields beside a key that is no secret: of a label, a taint, or of an entry of a
// ConfigMap or a Secret.
var selectors = strings.Fields(`effect name operator path tolerationSeconds values`)

// Object removes secrets from an object of the API server, as package json decodes it, in place.
func Object(object map[string]any) Removed {
	r := Removed{}
	if metadata, isMap := object["metadata"].(map[string]any); isMap {
		delete(metadata, "managedFields") // who wrote which field
	}

	kind, _ := object["kind"].(string)
	if strings.HasSuffix(kind, "AdmissionPolicy") {
		spec, _ := object["spec"].(map[string]any)
		for _, name := range celFields {
			if spec[name] != nil {
				delete(spec, name)
				r[Opaque]++
			}
		}
	}

	isCEL := strings.HasPrefix(kind, "DeviceClass") || strings.HasPrefix(kind, "Resource")
	r.object(object, isCEL)
	return r
}

// object removes secrets from a map. Expressions of claims and classes stay.
func (r Removed) object(object map[string]any, isCEL bool) {
	for name, value := range object {
		text, isText := value.(string)
		rule := fields[name]
		switch {
		case rule != "":
			object[name] = r.field(name, rule, value)
		case isText && text == "":
		case name == "value" && isText && isEntry(object): // of a variable, a header, a parameter
			object[name] = Mark
			r[Values]++

		case isSecret(name, object):
			object[name] = r.secret(name, value)
		case isText && isCEL && name == "expression":
			object[name] = r.message(Messages, text, func(text string) string {
				return removeCompared(bareSecrets(text))
			})
		case isText && name == "path" && object["port"] != nil: // of a probe
			object[name] = r.text(name, r.message(Messages, text, addressSecrets))
		case isText:
			object[name] = r.text(name, text)
		default:
			r.value(name, value, isCEL)
		}
	}
}

// isEntry reports whether a map is a name or a key with its value, and not a taint or a toleration.
func isEntry(object map[string]any) bool {
	_, isNamed := object["name"].(string)
	_, isKey := object["key"].(string)
	return isNamed || isKey && object["effect"] == nil && object["operator"] == nil
}

// isSecret reports whether the name of a field says that its value is a secret.
func isSecret(name string, object map[string]any) bool {
	// A field key names something where a value, or a field of a selector, is beside it.
	isSelector := func(field string) bool { return object[field] != nil }
	if name == "key" && (isEntry(object) && object["value"] != nil ||
		slices.ContainsFunc(selectors, isSelector)) {
		return false
	}

	doubt := doubtOf(name)
	text, isText := object[name].(string)
	return doubt == certain && name != "value" ||
		doubt == doubtful && isText && !publicValue.MatchString(text) && !objectKey.MatchString(text)
}

// secret returns what stays of a field whose name says that it is a secret: how it is built, and
// which Secret has it.
func (r Removed) secret(name string, value any) any {
	switch v := value.(type) {
	case string:
		if v == "" || slices.Contains(references, name) {
			return v
		}
		r[Named]++
		return Mark

	case float64, json.Number:
		if doubtOf(name) == certain { // a PIN
			r[Named]++
			return nil
		}

	case map[string]any:
		for field := range v {
			// Beside a name or a path key says which part of a Secret it is.
			isOfSecret := field == "key" && (v["name"] != nil || v["path"] != nil)
			if !isOfSecret {
				v[field] = r.secret(field, v[field])
			}
		}

	case []any:
		for i := range v {
			v[i] = r.secret(name, v[i])
		}
	}

	return value
}

// field returns what stays of a field that has a rule. It is of the same type.
func (r Removed) field(name string, rule Rule, value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		r[rule]++
		if rule == CloudInit {
			return cloudInitHeader(v, strings.HasSuffix(name, "Base64"))
		}
		return Mark

	case []any:
		switch {
		case rule == Arguments:
			return r.arguments(v, name == "command")
		case name == "options": // of DNS
			r.value(name, v, false)
			return v
		}
		r[rule] += len(v)
		return []any{}

	case map[string]any:
		switch {
		case rule == Annotations:
			return r.annotations(v)
		case rule == Data && name == "data":
			return r.data(v)
		}
		r[rule]++
		return map[string]any{}
	}

	r[rule]++
	return nil
}

// value removes secrets from what a field or a list has.
func (r Removed) value(name string, value any, isCEL bool) {
	switch v := value.(type) {
	case map[string]any:
		r.object(v, isCEL)
	case []any:
		for i, item := range v {
			if text, isText := item.(string); isText {
				v[i] = r.text(name, text)
				continue
			}
			r.value(name, item, isCEL)
		}
	}
}

// messages are the fields of objects that have sentences.
var messages = []string{"message", "reason", "note", "description"}

// text removes secrets from a text of an object: those that a message may have and, of what is a
// name or an address, those of a known form.
func (r Removed) text(name, text string) string {
	if name == "mountOptions" {
		text = r.message(Messages, text, mountSecrets)
	}

	if slices.Contains(messages, name) || strings.ContainsAny(text, " \t\n=\"'<[{") {
		return r.message(Messages, text, Text)
	}
	return r.message(Messages, text, bareSecrets)
}

// mountSecrets removes secrets from options of mount(8), whose values end at a comma.
func mountSecrets(options string) string {
	all := strings.Split(options, ",")
	for i, option := range all {
		if name, value, isPair := strings.Cut(option, "="); isPair && isSecretOf(name, value) {
			all[i] = name + "=" + Mark
		}
	}
	return strings.Join(all, ",")
}

// structured removes secrets from a text that may be JSON, as from an object.
func (r Removed) structured(text string) string {
	var object any
	if json.Unmarshal([]byte(text), &object) != nil {
		return r.text("", text)
	}

	r.hookField(object)
	r.value("", object, false)
	data, err := json.Marshal(object)
	if err != nil {
		return Mark
	}

	return string(data)
}

// hookField removes what no field of hookSidecars has.
func (r Removed) hookField(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, item := range v {
			if !slices.Contains(hookFields, name) {
				v[name] = Mark
				r[Annotations]++
				continue
			}
			r.hookField(item)
		}

	case []any:
		for _, item := range v {
			r.hookField(item)
		}
	}
}

// policyValue returns a value of a policy's key, if it can be one.
func (r Removed) policyValue(text string) string {
	if policyValue.MatchString(text) {
		return text
	}
	r[Data]++
	return Mark
}

// arguments removes the arguments that are not this hook's policy. A program's name, the names of
// flags, and the hook's values stay.
func (r Removed) arguments(list []any, hasProgram bool) []any {
	keeps := hasProgram // the next
	for i, item := range list {
		text, _ := item.(string)
		flag, value, hasValue := strings.Cut(text, "=")
		isFlag := strings.HasPrefix(flag, "-")
		switch {
		case isFlag && isPolicy(flag):
			keeps = !hasValue
			list[i] = r.text("", text)

		case isFlag && hasValue:
			list[i], keeps = flag+"="+Mark, false
			if value != "" {
				r[Arguments]++
			}

		case isFlag:
			keeps = false
		case keeps:
			list[i], keeps = r.text("", text), false
		default:
			list[i] = Mark
			r[Arguments]++
		}
	}

	return list
}

// isPolicy reports whether a flag is one of the hook's policy.
func isPolicy(flag string) bool {
	name := strings.TrimLeft(flag, "-")
	return slices.Contains(policy.Keys(), policy.Key(name)) || name == "lock"
}

// annotations removes the values of annotations that no command reads.
func (r Removed) annotations(all map[string]any) map[string]any {
	for name, value := range all {
		text, isText := value.(string)
		key, isHooks := strings.CutPrefix(name, policy.AnnotationPrefix)
		isKept := slices.Contains(annotations, name) || isHooks && isPolicy(key)
		switch {
		case isText && isHooks && isKept:
			all[name] = r.policyValue(text)
		case isText && isKept:
			all[name] = r.structured(text)
		case value != "":
			all[name] = Mark
			r[Annotations]++
		}
	}

	return all
}

// data removes the values of a ConfigMap or a Secret that are not settings of this hook.
func (r Removed) data(all map[string]any) map[string]any {
	for name, value := range all {
		text, isText := value.(string)
		switch {
		case isText && isPolicy(name):
			all[name] = r.policyValue(text)
		case isText && name == "image": // of this hook (manifests/plugin)
			all[name] = r.text("", text)
		default:
			all[name] = Mark
			r[Data]++
		}
	}

	return all
}

// cloudInitHeader returns what stays of cloud-init data: that it is of cloud-init.
func cloudInitHeader(data string, isBase64 bool) string {
	if isBase64 {
		decoded, _ := base64.StdEncoding.DecodeString(data) // of nothing if it is invalid
		return base64.StdEncoding.EncodeToString([]byte(cloudInitHeader(string(decoded), false)))
	}

	const header = "#cloud-config"
	if strings.HasPrefix(data, header) {
		return header + "\n# " + Mark + "\n"
	}

	return Mark
}
