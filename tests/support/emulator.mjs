// GitHub's API with one repository, a fork of it and a pull request. Prints its tokens, runs until it is ended.
import { generateKeyPairSync, sign } from "node:crypto";
import { pathToFileURL } from "node:url";

const [port, emulate] = process.argv.slice(2);
const { createEmulator } = await import(pathToFileURL(`${emulate}/dist/api.js`).href);
const APP = 15368;
const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});
const emulator = await createEmulator({
  service: "github",
  port: Number(port),
  seed: {
    tokens: {
      "token-of-owner": { login: "octo", scopes: ["repo", "user"] },
      "token-of-stranger": { login: "stranger", scopes: ["repo", "user"] },
    },
    github: {
      users: [{ login: "octo" }, { login: "stranger" }],
      repos: [{ owner: "octo", name: "models", auto_init: true }],
      apps: [
        {
          app_id: APP,
          slug: "github-actions",
          name: "GitHub Actions",
          private_key: privateKey,
          permissions: { pull_requests: "write", contents: "read" },
          installations: [{ installation_id: 1, account: "octo" }],
        },
      ],
    },
  },
});

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const now = Math.floor(Date.now() / 1000);
const claim = `${encoded({ alg: "RS256", typ: "JWT" })}.${encoded({ iat: now - 5, exp: now + 300, iss: String(APP) })}`;
const proof = `${claim}.${sign("sha256", claim, privateKey).toString("base64url")}`;

// What a workflow is given: one token for each grant of `pull-requests`.
async function granted(level) {
  const answer = await fetch(`${emulator.url}/app/installations/1/access_tokens`, {
    method: "POST",
    headers: { authorization: `Bearer ${proof}` },
    body: JSON.stringify({ permissions: { pull_requests: level } }),
  });
  return (await answer.json()).token;
}

console.log(JSON.stringify({ write: await granted("write"), read: await granted("read") }));
