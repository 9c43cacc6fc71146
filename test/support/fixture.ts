// What vitest starts for a file's tests, with the first that asks for it, and ends after the last, whatever happened:
// `const test = base.extend('service', { scope: 'file' }, aService({ apps }))`, and then `async ({ service }) => …`.

import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { makeFolder, type Service, type ServiceOptions, startService } from './service.ts'

type Fixture<T> = (context: object, fixture: { onCleanup: (cleanUp: () => Promise<void>) => void }) => Promise<T>
type OwnOptions = Omit<ServiceOptions, 'dataDir'>

/** An embedded service, with a folder of its own: `service.dataDir`. `options` may first put files there. */
export function aService(options: OwnOptions | ((dataDir: string) => OwnOptions)): Fixture<Service> {
  // oxlint-disable-next-line no-empty-pattern -- vitest reads there which other fixtures this one needs
  return async ({}, { onCleanup }) => {
    const dataDir = await makeFolder()
    const service = await startService({ dataDir, ...(typeof options === 'function' ? options(dataDir) : options) })
    onCleanup(() => service.kill())
    return service
  }
}

/** Settings for TLS, with a certificate of its own in that folder. */
export function tlsSettings(folder: string): Record<string, string> {
  const cert = join(folder, 'cert.pem')
  const key = join(folder, 'key.pem')
  makeCertificate({ cert, key })
  return { SLUICE_TLS_CERT: cert, SLUICE_TLS_KEY: key }
}

/** For openssl; one of RSA takes a quarter of a second of CPU. */
export const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'] as const

export function makeCertificate(files: { cert: string; key: string }, name = 'localhost', days = 2): void {
  const make = ['req', '-x509', ...NEW_KEY, '-days', String(days), '-subj', `/CN=${name}`]
  execFileSync('openssl', [...make, '-keyout', files.key, '-out', files.cert], { stdio: 'ignore' })
}
