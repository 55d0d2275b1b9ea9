// An OpenID provider for tests. Arguments: the redirect URI of its client `hub`. Prints its port.
// Who signs in is the header `x-account` of the browser; accounts are made on the way, from JSON.
import { createServer } from "node:http";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import Provider from "oidc-provider";

const accounts = new Map();
const { privateKey } = await generateKeyPair("RS256", { extractable: true });
const key = { ...(await exportJWK(privateKey)), kid: "one", alg: "RS256", use: "sig" };
const server = createServer().listen(0, "127.0.0.1", start);

function start() {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "hub",
        client_secret: "a secret & more",
        redirect_uris: [process.argv[2]],
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username", "name", "groups"] },
    cookies: { keys: ["for tests"] },
    features: { devInteractions: { enabled: false } },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, ...accounts.get(id) }),
    }),
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    jwks: { keys: [key] },
    pkce: { required: () => true, methods: ["S256"] },
    ttl: { AuthorizationCode: 60 },
  });
  provider.use(async (context, next) => {
    const { path, req, res } = context;
    if (path.startsWith("/interaction/")) return interact(provider, req, res);
    if (path === "/mint") return mint(context, issuer);
    if (path === "/expire") {
      const code = await provider.AuthorizationCode.find(context.query.code);
      await code.destroy();
      context.body = "";
      return;
    }
    await next();
  });
  server.on("request", provider.callback());
  console.log(server.address().port);
}

async function interact(provider, req, res) {
  const { prompt, params, session } = await provider.interactionDetails(req, res);
  if (prompt.name === "login") {
    const { sub, ...claims } = JSON.parse(req.headers["x-account"]);
    accounts.set(sub, claims);
    return provider.interactionFinished(req, res, { login: { accountId: sub, remember: false } });
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  const grantId = await grant.save();
  return provider.interactionFinished(req, res, { consent: { grantId } }, { mergeWithLastSubmission: true });
}

// An ID token with any claims, signed by the provider's key.
async function mint(context, issuer) {
  const claims = JSON.parse(context.query.claims);
  const token = new SignJWT({ iss: issuer, ...claims }).setProtectedHeader({
    alg: "RS256",
    kid: context.query.kid ?? "one",
  });
  context.body = await token.sign(privateKey);
}
