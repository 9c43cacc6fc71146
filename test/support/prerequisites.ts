// Before the tests that run the service: the programs that they call beside Node. On Debian, as root, what is missing
// is installed; elsewhere one line says how.

import { spawnSync } from 'node:child_process'

const PROGRAMS = ['bash', 'curl', 'openssl', 'redis-server', 'nats-server']

export default function installPrerequisites(): void {
  const missing = PROGRAMS.filter((name) => spawnSync(name, ['--version'], { stdio: 'ignore' }).error !== undefined)
  if (missing.length === 0) return
  const install = `apt-get install -y ${missing.join(' ')}`
  const isDebianRoot = process.getuid?.() === 0 && spawnSync('apt-get', ['--version'], { stdio: 'ignore' }).status === 0
  if (isDebianRoot) {
    console.log(`tests: ${install}`)
    spawnSync('apt-get', ['update'], { stdio: 'ignore' })
    const installed = spawnSync('apt-get', ['install', '-y', ...missing], { stdio: ['ignore', 'ignore', 'inherit'] })
    if (installed.status === 0) return
  }
  throw new Error(`the tests need ${missing.join(', ')}: install them, on Debian with ${install}`)
}
