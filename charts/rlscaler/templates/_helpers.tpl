{{- define "rlscaler.fullname" -}}
{{- if contains "rlscaler" .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-rlscaler" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "rlscaler.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rlscaler.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rlscaler.selectorLabels" -}}
app.kubernetes.io/name: rlscaler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rlscaler.labels" -}}
{{ include "rlscaler.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}
