// Starts the page.
import { render } from "preact";
import { isAway, refreshModels } from "./api/models";
import { chooseModel, current, start } from "./state/conversations";
import { report } from "./state/notice";
import { applyTheme, preferences } from "./state/preferences";
import { App } from "./view/app";
import "./style/page.css";

applyTheme();
preferences.follow(applyTheme);
current.follow(chooseModel);
render(<App />, document.getElementById("page")!);
start().catch(report);
const findModels = () => refreshModels().then(chooseModel);
void findModels();

/** A server that was away may be back. */
const RETRY_MS = 5000;
setInterval(() => {
  if (isAway && !document.hidden) void findModels();
}, RETRY_MS);
