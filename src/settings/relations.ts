// What settings want of each other, and of the files that they name.

import { isLoopback } from '../lib/loopback.ts'
import type { Machine } from './machine.ts'
import type { SETTINGS, SettingName } from './settings.ts'

export type Values = { -readonly [Name in SettingName]: (typeof SETTINGS)[Name]['fallback'] }

export function relationMistakes(values: Values, machine: Machine): string[] {
  const mistakes: string[] = []
  if (values.SLUICE_ADMIN_PORT === values.PORT && values.PORT !== 0) {
    mistakes.push('SLUICE_ADMIN_PORT: must differ from PORT')
  }
  const { SLUICE_PORTAL_PORT: portalPort, SLUICE_PORTAL_ORIGIN: portalOrigin } = values
  if (portalPort !== null && portalPort !== 0 && [values.PORT, values.SLUICE_ADMIN_PORT].includes(portalPort)) {
    mistakes.push('SLUICE_PORTAL_PORT: must differ from PORT and SLUICE_ADMIN_PORT')
  }
  if (portalPort !== null && !isLoopback(values.SLUICE_PORTAL_HOST) && !portalOrigin?.startsWith('https:')) {
    mistakes.push(
      'SLUICE_PORTAL_ORIGIN: must be given, as https://…, where SLUICE_PORTAL_HOST is not a loopback address',
    )
  }
  if (values.SLUICE_CONSOLE_READ_TOKEN !== null && values.SLUICE_CONSOLE_READ_TOKEN === values.SLUICE_CONSOLE_TOKEN) {
    mistakes.push('SLUICE_CONSOLE_READ_TOKEN: must differ from SLUICE_CONSOLE_TOKEN')
  }
  if (values.SLUICE_PROCESSES > 1 && values.REDIS_URL === null && values.NATS_URL === null) {
    mistakes.push('SLUICE_PROCESSES: more than 1 wants REDIS_URL and NATS_URL, which processes share')
  }
  if (values.SLUICE_DRAIN_DELAY_SECONDS >= values.SLUICE_SHUTDOWN_SECONDS) {
    mistakes.push('SLUICE_DRAIN_DELAY_SECONDS: must be less than SLUICE_SHUTDOWN_SECONDS, which it is part of')
  }
  if (values.SLUICE_DECODER === 'simdjson' && !machine.simdjsonAvailable()) {
    mistakes.push(
      'SLUICE_DECODER: simdjson is not installed; npm install simdjson@0.9.2 compiles it, with python3, make and g++',
    )
  }
  const publicTls = pairMistakes('SLUICE_TLS_CERT', 'SLUICE_TLS_KEY', values, machine)
  return [...mistakes, ...publicTls, ...redisMistakes(values, machine), ...natsMistakes(values, machine)]
}

type FileName =
  | 'SLUICE_TLS_CERT'
  | 'SLUICE_TLS_KEY'
  | `NATS_${'CREDS' | 'CA' | 'CERT' | 'KEY'}`
  | `REDIS_${'CA' | 'CERT' | 'KEY'}`

/** A certificate and its key are given together. */
function pairMistakes(cert: FileName, key: FileName, values: Values, machine: Machine): string[] {
  return [[cert, key] as const, [key, cert] as const].flatMap(([name, other]) =>
    values[name] === null && values[other] !== null
      ? [`${name}: must be given with ${other}`]
      : fileMistakes(name, values, machine),
  )
}

function fileMistakes(name: FileName, values: Values, machine: Machine): string[] {
  const path = values[name]
  const reason = path === null ? null : machine.unreadable(path)
  return reason === null ? [] : [`${name}: ${reason}`]
}

function redisMistakes(values: Values, machine: Machine): string[] {
  const given = (['REDIS_CA', 'REDIS_CERT', 'REDIS_KEY'] as const).filter((name) => values[name] !== null)
  if (values.REDIS_URL === null) return given.map((name) => `${name}: must be given with REDIS_URL`)
  return [...fileMistakes('REDIS_CA', values, machine), ...pairMistakes('REDIS_CERT', 'REDIS_KEY', values, machine)]
}

function natsMistakes(values: Values, machine: Machine): string[] {
  const url = values.NATS_URL
  const given = (['NATS_CREDS', 'NATS_CA', 'NATS_CERT', 'NATS_KEY'] as const).filter((name) => values[name] !== null)
  const wantsSync = values.SLUICE_REQUIRE_SYNC === 'true'
  if (url === null && wantsSync) return ['SLUICE_REQUIRE_SYNC: must be given with NATS_URL']
  if (url === null && values.SLUICE_SPOOL_DIR !== null) return ['SLUICE_SPOOL_DIR: must be given with NATS_URL']
  if (url === null) return given.map((name) => `${name}: must be given with NATS_URL`)
  const hasUser = url.split(',').some((one) => new URL(one).username !== '')
  const twice = hasUser && values.NATS_CREDS !== null ? ['NATS_CREDS: NATS_URL names a user: give one of the two'] : []
  return [
    ...twice,
    ...fileMistakes('NATS_CREDS', values, machine),
    ...fileMistakes('NATS_CA', values, machine),
    ...pairMistakes('NATS_CERT', 'NATS_KEY', values, machine),
  ]
}
