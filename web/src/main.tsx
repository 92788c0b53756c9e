// Starts the page.
import { render } from "preact";
import { refreshModels } from "./api/models";
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
void refreshModels().then(chooseModel);
