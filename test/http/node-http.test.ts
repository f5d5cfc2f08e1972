import { execFileSync } from 'node:child_process'
import t from 'tap'

/** In a process of its own, because modules that others have loaded stay loaded. */
function internalsLoadedBy(module: string): string[] {
  const program = `await import(${JSON.stringify(module)}); console.log(process.moduleLoadList.join('\\n'))`
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
  return output.split('\n')
}

t.test("loading the proxy does not load Node's fetch client, which nothing in it uses", t => {
  const loaded = internalsLoadedBy(new URL('../../src/index.js', import.meta.url).href)
  t.ok(loaded.includes('NativeModule _http_server'), 'the server of the admin listener')
  t.notOk(loaded.includes('NativeModule internal/deps/undici/undici'))
  t.end()
})
