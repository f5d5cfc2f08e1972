/** What a reader has to type to start this program again. */
import t from 'tap'
import { commandOf, keptByNpm } from '../../src/cli/invocation.js'

const NPM_START = { npm_lifecycle_event: 'start', npm_package_name: 'sluice', npm_command: 'start' }

t.test('a hint names the command by which the program was started', async t => {
  const table: [script: string, folder: string, environment: Record<string, string>, command: string][] = [
    ['/home/a/sluice/dist/bin.js', '/home/a/sluice', {}, 'node dist/bin.js'],
    ['/home/a/sluice/dist/bin.js', '/home/a/sluice/dist', {}, 'node ./bin.js'],
    ['/home/a/sluice/dist/bin.js', '/home/a/other', {}, 'node /home/a/sluice/dist/bin.js'],
    ["/home/a/it's mine/dist/bin.js", '/srv', {}, "node '/home/a/it'\\''s mine/dist/bin.js'"],
    ['/home/a/sluice/dist/bin.js', '/home/a/sluice', NPM_START, 'npm start --'],
    // Another package whose own start script runs this program, and a script of ours that is not start.
    ['/srv/sluice.js', '/srv', { ...NPM_START, npm_package_name: 'app' }, 'node ./sluice.js'],
    ['/srv/dist/bin.js', '/srv', { ...NPM_START, npm_lifecycle_event: 'x' }, 'node dist/bin.js'],
    ['/usr/local/bin/sluice', '/', { PATH: '/bin:/usr/local/bin' }, 'sluice'],
    ['/opt/node/bin/sluice', '/srv', { PATH: '/bin:/usr/local/bin' }, '/opt/node/bin/sluice'],
    ['/opt/node/bin/sluice', '/opt/node', {}, 'bin/sluice'],
    ['/opt/node/bin/sluice', '/opt/node/bin', {}, './sluice'],
    // npm puts this folder into the PATH of its scripts, and not into that of the reader.
    ['/srv/node_modules/.bin/sluice', '/srv', { PATH: '/srv/node_modules/.bin' }, 'npx sluice'],
    ['/root/.npm/_npx/f9/node_modules/.bin/sluice', '/srv', { npm_command: 'exec' }, 'npx sluice'],
  ]
  for (const [script, folder, environment, command] of table)
    t.equal(commandOf({ script, folder, environment }), command, `${script} in ${folder}`)
})

t.test('what npm start has kept for itself comes back as what was meant', async t => {
  const go = 'npm has kept an option for itself; those of this program go behind --: npm start -- '
  const kept = (own: Record<string, string>, ...words: string[]) => keptByNpm({ ...NPM_START, ...own }, words)
  t.equal(kept({}), undefined)
  t.equal(kept({ npm_config_call: '' }, '--config', 'a.yaml'), undefined)
  t.equal(kept({ npm_config_config: 'true' }, 'a.yaml'), `${go}--config a.yaml`)
  t.equal(kept({ npm_config_config: 'true' }), `${go}--config VALUE`)
  t.equal(kept({ npm_config_config: 'a.yaml' }), `${go}--config a.yaml`)
  t.equal(kept({ npm_config_call: 'a.yaml' }), `${go}--config a.yaml`)
  t.equal(
    kept({ npm_config_listen: 'true', npm_config_log_format: 'true' }, '127.0.0.1:1', 'json'),
    `${go}--listen 127.0.0.1:1 --log-format json`,
  )
  t.equal(keptByNpm({ npm_config_config: 'a.yaml' }, []), undefined, 'without npm start')
})
