{{- define "slipway.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- define "slipway.account" -}}
{{- .Values.serviceAccount.name | default (include "slipway.name" .) -}}
{{- end -}}
{{- define "slipway.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- define "slipway.selector" -}}
app.kubernetes.io/name: slipway-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "slipway.labels" -}}
{{ include "slipway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
{{- /* The accounts that may write what only the controller writes: its own, and those of agents. */ -}}
{{- define "slipway.writers" -}}
{{- $own := printf "system:serviceaccount:%s:%s" .Release.Namespace (include "slipway.account" .) -}}
{{- $all := list $own -}}
{{- range .Values.agent.accounts -}}
{{- $all = append $all (printf "system:serviceaccount:%s:%s-agent-%s" $.Release.Namespace (include "slipway.name" $) .) -}}
{{- end -}}
{{- $all | toJson -}}
{{- end -}}
