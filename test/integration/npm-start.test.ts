import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const checkout = fileURLToPath(new URL('../..', import.meta.url))

it('npm start with only a folder and ports set serves, and its printed curl line gets a 202', async () => {
  const place = mkdtempSync(join(tmpdir(), 'sluice-start-'))
  const npm = spawn('npm', ['start'], {
    cwd: checkout,
    env: { ...process.env, SLUICE_DATA_DIR: join(place, 'data'), PORT: '0', SLUICE_ADMIN_PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
    // A process group of its own, so that the signal below reaches the service like one of a terminal.
    detached: true,
  })
  try {
    const curl = await new Promise<string>((resolve, reject) => {
      let output = ''
      npm.stdout.on('data', (chunk: Buffer) => {
        output += chunk.toString()
        const line = /^curl .*\n/m.exec(output)
        if (line !== null && output.includes('"msg":"listening"')) resolve(line[0])
      })
      npm.on('exit', (code) => reject(new Error(`npm start ended with ${code}:\n${output}`)))
    })
    const answer = execFileSync('sh', ['-c', curl], { encoding: 'utf8' })
    expect(answer).toMatch(/^HTTP\/1\.1 202 /)
    expect(answer).toContain('{"status":"accepted","events":1}')
  } finally {
    // Its output closes when the service has ended, which is after npm, because of the last snapshot.
    const ended = new Promise((resolve) => npm.on('close', resolve))
    if (npm.pid !== undefined && npm.exitCode === null) process.kill(-npm.pid, 'SIGTERM')
    await ended
    rmSync(place, { recursive: true, force: true })
  }
})
